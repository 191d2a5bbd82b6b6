package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// trips is how many round trips are measured; on a slow line fewer, but no less than tripsLeast.
	trips      = 100
	tripsLeast = 20
	tripsTime  = 2 * time.Second

	// freshness is how long a departure stays good by default, and freshnessSpare what must be left of it.
	freshness      = 25 * time.Millisecond
	freshnessSpare = 10 * time.Millisecond
	freshnessStep  = 5 * time.Millisecond // what advice is rounded up to

	clockMost = time.Second
)

// examineTrip measures round trips to a server and compares its clock with ours.
func examineTrip(ctx context.Context, node redis.Cmdable) []Finding {
	var took []time.Duration
	var ahead time.Duration // the server's clock, at the fastest trip, where it is known best
	begin := time.Now()
	for len(took) < trips && (len(took) < tripsLeast || time.Since(begin) < tripsTime) {
		sent := time.Now()
		server, err := node.Time(ctx).Result()
		if err != nil {
			return []Finding{fail("latency", "Redis does not tell its time: "+err.Error(), "see its log")}
		}
		trip := time.Since(sent)
		if len(took) == 0 || trip < slices.Min(took) {
			ahead = server.Sub(sent.Add(trip / 2))
		}
		took = append(took, trip)
	}
	return []Finding{checkLatency(took), checkClock(ahead)}
}

func checkLatency(took []time.Duration) Finding {
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[(len(took)*99-1)/100]
	detail := fmt.Sprintf("%d round trips: p50 %v, p99 %v", len(took), p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond))
	if need := 2*p99 + freshnessSpare; need > freshness {
		return warn("latency", detail+fmt.Sprintf("; departures of workers as far away stay good for too short (%v)", freshness),
			fmt.Sprintf("give workers --freshness %v or more, or bring them nearer to Redis", (need+freshnessStep-1).Truncate(freshnessStep)))
	}
	return ok("latency", detail)
}

func checkClock(ahead time.Duration) Finding {
	text := "Redis's clock and this machine's agree"
	switch {
	case ahead >= time.Millisecond:
		text = fmt.Sprintf("Redis's clock is %v ahead of this machine's", ahead.Round(time.Millisecond))
	case ahead <= -time.Millisecond:
		text = fmt.Sprintf("Redis's clock is %v behind this machine's", (-ahead).Round(time.Millisecond))
	}
	if ahead.Abs() > clockMost {
		return warn("clock", text+"; all times, not_before too, are by Redis's", "set both by NTP")
	}
	return ok("clock", text)
}
