package preview_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/admin/internal/preview"
	"github.com/spout-queue/spout/queue"
)

func class(capacity int, limit int64, period time.Duration) queue.Class {
	return queue.NewClass("c", capacity, queue.Rate{Limit: limit, Period: period})
}

// hour is 12 points of 5 minutes, in each of which as many were admitted and refused, to as many buckets.
func hour(admitted, rejected, buckets int64) []queue.HistoryPoint {
	points := make([]queue.HistoryPoint, 12)
	for i := range points {
		points[i] = queue.HistoryPoint{
			Recorded: true, Over: 5 * time.Minute, Admitted: admitted, Departed: admitted, Rejected: rejected, Buckets: buckets,
		}
	}
	return points
}

func TestOf(t *testing.T) {
	t.Parallel()
	gap := hour(300, 0, 1)
	gap[6] = queue.HistoryPoint{}
	waiting := hour(0, 0, 1)
	waiting[0].Waiting, waiting[0].Departed = 100, 300
	for name, c := range map[string]struct {
		now, then queue.Class
		points    []queue.HistoryPoint
		levels    []int
		want      preview.Preview
	}{
		"nothing known": {class(10, 1, time.Second), class(10, 2, time.Second), nil, nil, preview.Preview{}},
		"levels": {
			class(100, 1, time.Second), class(20, 3, time.Second), nil,
			[]int{5, 60, 21, 20},
			preview.Preview{Now: preview.Estimate{Empty: time.Minute}, Then: preview.Estimate{Empty: 20 * time.Second}, Overfull: 2},
		},
		"as much as flows out": {
			class(10, 1, time.Second), class(1, 2, time.Second), hour(300, 0, 1), nil,
			preview.Preview{Arrived: 3600, Covered: time.Hour},
		},
		"half the rate": { // 150 of each 300 stay, 10 of them in the bucket
			class(10, 1, time.Second), class(10, 1, 2*time.Second), hour(300, 0, 1), nil,
			preview.Preview{Arrived: 3600, Covered: time.Hour, Then: preview.Estimate{Refused: 1790, Fullest: 10}},
		},
		"a capacity that takes it all": {
			class(10, 1, time.Second), class(2000, 1, 2*time.Second), hour(300, 0, 1), nil,
			preview.Preview{Arrived: 3600, Covered: time.Hour, Then: preview.Estimate{Fullest: 1800}},
		},
		"twice the rate of what refused": {
			class(10, 1, time.Second), class(10, 2, time.Second), hour(300, 300, 1), nil,
			preview.Preview{Arrived: 7200, Refused: 3600, Covered: time.Hour, Now: preview.Estimate{Refused: 3590, Fullest: 10}},
		},
		"over ten keys": {
			class(10, 1, 10*time.Second), class(10, 1, 20*time.Second), hour(300, 0, 10), nil,
			preview.Preview{Arrived: 3600, Covered: time.Hour, Then: preview.Estimate{Refused: 1700, Fullest: 10}},
		},
		"a gap begins anew with what waited": { // nothing waited at the next point
			class(10, 1, time.Second), class(100, 1, 2*time.Second), gap, nil,
			preview.Preview{Arrived: 3300, Covered: 55 * time.Minute, Then: preview.Estimate{Refused: 1450, Fullest: 100}},
		},
		"what waited before": { // 400 at first; 300 of them leave in the first 5 minutes, or 150
			class(500, 1, time.Second), class(500, 1, 2*time.Second), waiting, nil,
			preview.Preview{Covered: time.Hour, Now: preview.Estimate{Fullest: 100}, Then: preview.Estimate{Fullest: 250}},
		},
	} {
		if diff := cmp.Diff(c.want, preview.Of(c.now, c.then, c.points, c.levels)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}
