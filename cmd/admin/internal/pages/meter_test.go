package pages

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/playground"
)

// visitor is a browser that keeps its cookies.
type visitor struct {
	t       *testing.T
	site    *site
	cookies []*http.Cookie
}

func (v *visitor) do(method, path string, pairs ...string) *httptest.ResponseRecorder {
	v.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	r := httptest.NewRequestWithContext(access.With(v.t.Context(), bob), method, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range v.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	v.site.pages.ServeHTTP(w, r)
	v.cookies = append(v.cookies, w.Result().Cookies()...)
	return w
}

func TestMeterPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, "/ui")
	v, other := &visitor{t: t, site: s}, &visitor{t: t, site: s}
	if w := v.do(http.MethodGet, "/ui/meter"); w.Code != http.StatusOK || len(v.cookies) != 1 || !v.cookies[0].HttpOnly || v.cookies[0].Path != "/ui/" {
		t.Fatalf("%d, %v", w.Code, v.cookies)
	}
	if w := v.do(http.MethodPost, "/ui/meter/settings", "limit", "3", "period", "60", "capacity", "3"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/ui/meter" {
		t.Errorf("settings: %d", w.Code)
	}
	v.do(http.MethodPost, "/ui/meter/click", "cost", "1", "times", "10")
	page := v.do(http.MethodGet, "/ui/meter").Body.String()
	if n := strings.Count(page, "3 conformed, 7 refused"); n != 6 {
		t.Errorf("%d of six lanes counted the clicks", n)
	}
	structure(t, page) // no inline styles or handlers
	if strings.Contains(other.do(http.MethodGet, "/ui/meter").Body.String(), "7 refused") {
		t.Error("another visitor has the same meters")
	}
	for path, pairs := range map[string][]string{
		"/ui/meter/click":    {"cost", "51"},
		"/ui/meter/settings": {"limit", "0", "period", "1", "capacity", "1"},
		"/ui/meter/rhythm":   {"cost", "many"},
	} {
		if w := v.do(http.MethodPost, path, pairs...); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "playground: invalid") {
			t.Errorf("%s %v: %d", path, pairs, w.Code)
		}
	}
	if v.do(http.MethodPost, "/ui/meter/reset"); strings.Contains(v.do(http.MethodGet, "/ui/meter").Body.String(), "7 refused") {
		t.Error("it does not begin anew")
	}
}

// The drawings change when somebody clicks, move while there is something to see, and then stand still.
func TestMeterDrawing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := playground.New().Table("x")
		drawn := func() patch {
			look, err := table.Look(t.Context())
			must(t, err)
			p := patch{}
			for _, l := range meterLanes(look) {
				l.patch(p)
			}
			return p
		}
		first := drawn()
		must(t, table.Click(t.Context(), 1, 10))
		clicked := drawn()
		for _, lane := range []string{"lane-0-", "lane-5-"} {
			if strings.Count(clicked[lane+"pass"]["d"], "M") != 5 || strings.Count(clicked[lane+"stop"]["d"], "M") != 5 || clicked[lane+"area"]["d"] == first[lane+"area"]["d"] {
				t.Errorf("%s: %v, %v", lane, clicked[lane+"pass"], clicked[lane+"stop"])
			}
		}
		<-time.After(time.Second)
		if later := drawn(); later["lane-0-scroll"]["transform"] == clicked["lane-0-scroll"]["transform"] || later["lane-0-pass"]["d"] != clicked["lane-0-pass"]["d"] {
			t.Error("a second later the marks did not move as a whole")
		}
		<-time.After(time.Minute)
		still := drawn()
		<-time.After(2 * time.Second)
		for id, attributes := range drawn() {
			for name, value := range attributes {
				if still[id][name] != value && !strings.HasSuffix(id, "-edges") {
					t.Errorf("nothing happens, and %s %s changes", id, name)
				}
			}
		}
	})
}

func TestCompared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := playground.New().Table("x")
		text := func() string {
			look, err := table.Look(t.Context())
			must(t, err)
			return compared(look)
		}
		if !strings.HasPrefix(text(), "Click") {
			t.Error(text())
		}
		<-time.After(1900 * time.Millisecond)
		must(t, table.Click(t.Context(), 1, 5))
		if !strings.Contains(text(), "all six let 5 pass") {
			t.Error(text())
		}
		<-time.After(200 * time.Millisecond) // the window's edge is between
		must(t, table.Click(t.Context(), 1, 5))
		if !strings.Contains(text(), "10 passed fixed-window") || !strings.Contains(text(), "began anew at its edge") {
			t.Error(text())
		}
	})
}
