package pages

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/spout-queue/spout/queue"
)

// chart is the data of the charts of a class, a column for each line; null where nobody knows.
type chart struct {
	At       []int64    `json:"at"` // seconds since 1970
	In       []*float64 `json:"in"`
	Out      []*float64 `json:"out"`
	Rejected []*float64 `json:"rejected"`
	// Rate is what one bucket lets go in a second at most.
	Rate     float64    `json:"rate"`
	Level    []*float64 `json:"level"`
	Dead     []*float64 `json:"dead"`
	Wait50   []*float64 `json:"wait50"` // seconds
	Wait99   []*float64 `json:"wait99"`
	Late50   []*float64 `json:"late50"`
	Late99   []*float64 `json:"late99"`
	Buckets  []*float64 `json:"buckets"`
	Possible []*float64 `json:"possible"` // what all buckets of the time could let go
}

// classChart serves it.
func (p *Pages) classChart(w http.ResponseWriter, r *http.Request) error {
	class, err := p.Desk.Class(r.Context(), r.URL.Query().Get("name"))
	if err != nil {
		return err
	}
	h, err := p.Desk.Client().History(r.Context(), class.Name, spanOf(r.URL.Query().Get("span")))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	return json.NewEncoder(w).Encode(newChart(h, ratePerSecond(class.Rate)))
}

func newChart(h queue.History, rate float64) chart {
	c := chart{Rate: rate}
	for _, p := range h.Points {
		c.At = append(c.At, p.At.Unix())
		c.In = append(c.In, rateOf(p, p.Admitted))
		c.Out = append(c.Out, rateOf(p, p.Departed))
		c.Rejected = append(c.Rejected, rateOf(p, p.Rejected))
		c.Level = append(c.Level, known(float64(p.Waiting), p.Recorded))
		c.Dead = append(c.Dead, known(float64(p.DeadKept), p.Recorded))
		c.Buckets = append(c.Buckets, known(float64(p.Buckets), p.Recorded))
		c.Possible = append(c.Possible, known(float64(max(1, p.Buckets))*rate, p.Recorded))
		started := p.Recorded && p.Starts > 0
		c.Wait50 = append(c.Wait50, known(p.Wait.P50.Seconds(), started))
		c.Wait99 = append(c.Wait99, known(p.Wait.P99.Seconds(), started))
		c.Late50 = append(c.Late50, known(p.Lateness.P50.Seconds(), started))
		c.Late99 = append(c.Late99, known(p.Lateness.P99.Seconds(), started))
	}
	return c
}

func rateOf(p queue.HistoryPoint, count int64) *float64 {
	f, ok := p.PerSecond(count)
	return known(f, ok)
}

// known is a number, or null.
func known(f float64, is bool) *float64 {
	if !is {
		return nil
	}
	return &f
}

// pointRow is a line of the table that says what the charts show.
type pointRow struct{ At, In, Out, Rejected, Level, Wait, Late string }

// tableRows are how many lines the table has at most.
const tableRows = 16

// pointRows are points of a history, newest first, evenly spread.
func pointRows(h queue.History) []pointRow {
	every := max(1, len(h.Points)/(tableRows-1))
	var rows []pointRow
	for i := len(h.Points) - 1; i >= 0; i -= every {
		p := h.Points[i]
		if !p.Recorded {
			continue
		}
		row := pointRow{
			At: p.At.UTC().Format(time.TimeOnly), In: rateText(p, p.Admitted), Out: rateText(p, p.Departed), Rejected: rateText(p, p.Rejected),
			Level: number(p.Waiting), Wait: "–", Late: "–",
		}
		if p.Starts > 0 {
			row.Wait = shortDuration(p.Wait.P50) + " / " + shortDuration(p.Wait.P99)
			row.Late = shortDuration(p.Lateness.P50) + " / " + shortDuration(p.Lateness.P99)
		}
		rows = append(rows, row)
	}
	return slices.Clip(rows)
}

func rateText(p queue.HistoryPoint, count int64) string {
	if f, ok := p.PerSecond(count); ok {
		return perSecond(f)
	}
	return "–"
}
