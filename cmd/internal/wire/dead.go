package wire

import "github.com/spout-queue/spout/queue"

// DeadGroups are the errors of the newest dead jobs of a class, alike ones together.
type DeadGroups struct {
	Items  []DeadGroup `json:"items" nullable:"false" doc:"Those with most jobs first."`
	Looked int         `json:"looked" doc:"How many dead jobs this is of: the newest 1,000 of each shard at most."`
	Kept   int         `json:"kept" doc:"How many there are."`
	Others int         `json:"others" doc:"Jobs in groups beyond the limit."`
}

// DeadGroup is jobs that died of the same, but for numbers, names and the like.
type DeadGroup struct {
	Text     string   `json:"text" doc:"The error with what differs folded." example:"‹…›: connection refused"`
	Count    int      `json:"count"`
	Newest   Time     `json:"newest" format:"date-time" doc:"When the newest of them died."`
	Example  string   `json:"example" doc:"Its ref."`
	Error    string   `json:"error" doc:"Its error."`
	Keys     []string `json:"keys" nullable:"false" doc:"Up to 10, those with most of the jobs first."`
	KeyCount int      `json:"key_count"`
}

// FromDeadGroups writes them down.
func FromDeadGroups(g queue.DeadGroups) DeadGroups {
	w := DeadGroups{Items: make([]DeadGroup, len(g.Groups)), Looked: g.Looked, Kept: g.Kept, Others: g.Others}
	for i, one := range g.Groups {
		w.Items[i] = DeadGroup{
			Text: one.Text, Count: one.Count, Newest: Time(one.Newest), Example: one.Example, Error: one.Error, Keys: one.Keys, KeyCount: one.KeyCount,
		}
	}
	return w
}

// ToQueue is the inverse of FromDeadGroups.
func (w DeadGroups) ToQueue() queue.DeadGroups {
	g := queue.DeadGroups{Groups: make([]queue.DeadGroup, len(w.Items)), Looked: w.Looked, Kept: w.Kept, Others: w.Others}
	for i, one := range w.Items {
		g.Groups[i] = queue.DeadGroup{
			Text: one.Text, Count: one.Count, Newest: goTime(&one.Newest), Example: one.Example, Error: one.Error, Keys: one.Keys, KeyCount: one.KeyCount,
		}
	}
	return g
}
