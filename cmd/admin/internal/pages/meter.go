package pages

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/playground"
)

// The rhythm that one button plays.
const (
	rhythmClicks = 30
	rhythmEvery  = 100 * time.Millisecond
)

// meterCookie names the meters of a visitor. It is no secret that opens anything.
const meterCookie = "spout_meter"

// meterMost bounds the forms of the playground, in bytes.
const meterMost = 4 << 10

// meterPage is the playground of meters, which anybody may use who may look.
type meterPage struct {
	*Pages
	ground *playground.Playground
}

func (p *Pages) meterRoutes() {
	m := meterPage{p, playground.New()}
	p.get("/meter", m.show)
	p.post("/meter/click", m.do(m.click))
	p.post("/meter/rhythm", m.do(m.rhythm))
	p.post("/meter/settings", m.do(m.set))
	p.post("/meter/reset", m.do(m.reset))
	p.live["meter"] = m.live
}

// meterView is what the page shows.
type meterView struct {
	playground.Settings
	Seconds int // of the period
	Lanes   []meterLane
	Verdict string
	Wrong   string // what was not taken, of the last form
}

func (m meterPage) show(w http.ResponseWriter, r *http.Request) error {
	return m.answer(w, r, m.table(w, r), nil)
}

// do wraps what a form does: the answer is the meters as they are then, and what was wrong with the form.
func (m meterPage) do(act func(*playground.Table, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		r.Body = http.MaxBytesReader(w, r.Body, meterMost)
		table := m.table(w, r)
		err := act(table, r)
		switch {
		case r.Context().Err() != nil:
			return nil //nolint:nilerr // who went away needs no answer
		case err == nil && r.Header.Get("HX-Request") == "":
			http.Redirect(w, r, m.url("/meter"), http.StatusSeeOther)
			return nil
		}
		return m.answer(w, r, table, err)
	}
}

func (m meterPage) answer(w http.ResponseWriter, r *http.Request, table *playground.Table, wrong error) error {
	look, err := table.Look(r.Context())
	if err != nil {
		return err
	}
	status := http.StatusOK
	view := meterView{Settings: look.Settings, Seconds: int(look.Period.Seconds()), Lanes: meterLanes(look), Verdict: compared(look)}
	if wrong != nil {
		status, view.Wrong = http.StatusBadRequest, wrong.Error()
		if errors.Is(wrong, playground.ErrRunning) {
			status = http.StatusConflict
		}
	}
	return m.Pages.show(w, r, partial(r, status), "meter", page{
		Title: "Meter playground", Here: "meter", Live: "view=meter",
		Styles: []string{"meter.css"}, Scripts: []string{"meter.js"}, Content: view,
	})
}

// table finds the meters of a visitor, by a cookie that is set with the first answer.
func (m meterPage) table(w http.ResponseWriter, r *http.Request) *playground.Table {
	if c, err := r.Cookie(meterCookie); err == nil && len(c.Value) == len(rand.Text()) {
		return m.ground.Table(c.Value)
	}
	name := rand.Text()
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // without TLS on loopback a browser would not send it back
		Name: meterCookie, Value: name, Path: m.Base + "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
	return m.ground.Table(name)
}

func (m meterPage) click(t *playground.Table, r *http.Request) error {
	cost, err := whole(r, "cost", 1)
	if err != nil {
		return err
	}
	times, err := whole(r, "times", 1)
	if err != nil {
		return err
	}
	return t.Click(r.Context(), cost, int(times))
}

// rhythm answers when it has been played; the stream shows it meanwhile.
func (m meterPage) rhythm(t *playground.Table, r *http.Request) error {
	cost, err := whole(r, "cost", 1)
	if err != nil {
		return err
	}
	return t.Play(r.Context(), cost, rhythmClicks, rhythmEvery)
}

func (m meterPage) set(t *playground.Table, r *http.Request) error {
	var n [3]int64
	for i, name := range []string{"limit", "period", "capacity"} {
		var err error
		if n[i], err = whole(r, name, 0); err != nil {
			return err
		}
	}
	if n[1] > int64(playground.MaxPeriod/time.Second) {
		return fmt.Errorf("%w: period %d s is above %v", playground.ErrInvalid, n[1], playground.MaxPeriod)
	}
	return t.Set(playground.Settings{Count: n[0], Period: time.Duration(n[1]) * time.Second, Capacity: n[2]})
}

func (m meterPage) reset(t *playground.Table, _ *http.Request) error {
	t.Reset()
	return nil
}

// whole reads a whole number of a form; a field that is not there has a default.
func whole(r *http.Request, name string, otherwise int64) (int64, error) {
	text := r.PostFormValue(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s is not a whole number", playground.ErrInvalid, name)
	}
	return n, nil
}

// live patches the drawings. A visitor without a cookie has nothing that could change.
func (m meterPage) live(r *http.Request) (func(context.Context) (frame, error), error) {
	c, err := r.Cookie(meterCookie)
	if err != nil {
		return func(context.Context) (frame, error) { return frame{}, nil }, nil //nolint:nilerr // see above
	}
	return func(ctx context.Context) (frame, error) {
		look, err := m.ground.Table(c.Value).Look(ctx)
		if err != nil {
			return frame{}, err
		}
		f := frame{Patch: patch{"meter-verdict": {"": compared(look)}}}
		for _, lane := range meterLanes(look) {
			lane.patch(f.Patch)
		}
		return f, nil
	}, nil
}
