package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
)

// natsPatience is how long NATS may take to answer: the doctor does not wait for what is away.
const natsPatience = 2 * time.Second

// pingPatience is how long a bridge may take for a sign of life.
const pingPatience = 500 * time.Millisecond

// ExamineNATS makes the checks of the bridge's side: the connection, the stream, and who carries it.
func ExamineNATS(ctx context.Context, o natsconn.Options, c jobstream.Config) []Finding {
	o.Patience = natsPatience
	conn, err := natsconn.Connect(ctx, o)
	if err != nil {
		return []Finding{fail("nats", err.Error(), "start it, or say where it is, and who you are, with --nats, --nats-context and --nats-creds")}
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*natsPatience)
	defer cancel()
	findings := []Finding{checkNATS(conn)}
	stream, err := conn.JetStream.Stream(ctx, c.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return append(findings, ok("stream", "no "+c.Name+" yet; producer bridge makes it"))
	case err != nil:
		return append(findings, fail("stream", c.Name+": "+err.Error(), "turn JetStream on, and let this account use it"))
	}
	info := stream.CachedInfo()
	return append(findings, checkStream(c, info), checkRoom(c.Name, info), checkBridges(ctx, conn.Conn, stream))
}

// checkNATS wants consumers with several subjects, which there are since 2.10.
func checkNATS(nc *natsconn.Conn) Finding {
	const check = "nats"
	version := nc.ConnectedServerVersion()
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return warn(check, "the server does not tell its version", "take nats-server 2.10 or later")
	}
	if major < 2 || major == 2 && minor < 10 {
		return fail(check, "nats-server "+version+" is too old", "upgrade it to 2.10 or later")
	}
	return ok(check, fmt.Sprintf("nats-server %s answers at %s, messages of up to %d KiB", version, nc.Address(), nc.MaxPayload()>>10))
}

func checkStream(c jobstream.Config, info *jetstream.StreamInfo) Finding {
	const check = "stream"
	if _, err := c.Compare(info.Config); err != nil {
		return fail(check, err.Error(), "drain it and delete it, or name another with --stream")
	}
	detail := fmt.Sprintf("%s, %v storage, %d replicas", c.Name, info.Config.Storage, info.Config.Replicas)
	switch {
	case info.Config.Storage == jetstream.MemoryStorage:
		return warn(check, detail+": a restart of its server loses the messages", "keep it in files")
	case info.Config.MaxMsgsPerSubject <= 0 || info.Config.MaxMsgsPerSubject > jobstream.Window || !info.Config.DiscardNewPerSubject:
		return warn(check, detail+"; one key may fill it, and delay the others of its class",
			"nats stream edit "+c.Name+" --max-msgs-per-subject 20000 --discard-per-subject")
	}
	return ok(check, detail)
}

// checkRoom looks how much waits.
func checkRoom(name string, info *jetstream.StreamInfo) Finding {
	detail := fmt.Sprintf("%d messages of %d keys wait in %s", info.State.Msgs, info.State.NumSubjects, name)
	if most := info.Config.MaxMsgs; most > 0 && float64(info.State.Msgs) >= nearlyFull*float64(most) {
		return warn("waiting", fmt.Sprintf("%s, of at most %d: above that publishing fails", detail, most), "raise the limit, or let workers drain")
	}
	if most := info.Config.MaxBytes; most > 0 && float64(info.State.Bytes) >= nearlyFull*float64(most) {
		return warn("waiting", fmt.Sprintf("%s, %d bytes of at most %d: above that publishing fails", detail, info.State.Bytes, most),
			"raise the limit, or let workers drain")
	}
	return ok("waiting", detail)
}

// checkBridges looks for the claims that bridges make, and whether those live.
func checkBridges(ctx context.Context, nc *nats.Conn, stream jetstream.Stream) Finding {
	const check = "bridges"
	var stalled []string
	classes, alive := 0, map[string]bool{}
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		id, class, claimed := jobstream.ReadConsumer(info.Name)
		if !claimed {
			return warn(check, "the consumer "+info.Name+" is no bridge's: what it gets does not reach the buckets",
				"nats consumer rm "+stream.CachedInfo().Config.Name+" "+info.Name)
		}
		classes++
		if _, asked := alive[id]; !asked {
			_, err := nc.Request("$SRV.PING.spout."+id, nil, pingPatience) // the next may live where one hangs
			alive[id] = err == nil
		}
		if !alive[id] {
			stalled = append(stalled, class)
		}
		if info.NumAckPending >= jobstream.Window {
			return warn(check, fmt.Sprintf("%d messages of class %s wait behind full buckets: its other keys wait too", info.NumAckPending, class),
				"raise the class's rate or capacity, or purge those keys")
		}
	}
	switch {
	case list.Err() != nil:
		return fail(check, list.Err().Error(), "see the log of NATS")
	case classes == 0 && stream.CachedInfo().State.Msgs > 0:
		return fail(check, "nobody carries the stream", "producer bridge")
	case classes == 0:
		return ok(check, "none runs")
	case stalled != nil:
		return warn(check, "gone, with the classes "+strings.Join(stalled, ", "), "another takes them over within some seconds: producer bridge")
	}
	return ok(check, fmt.Sprintf("%d carry %d classes", len(alive), classes))
}
