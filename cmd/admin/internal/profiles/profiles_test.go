package profiles_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/profiles"
)

// Each profile can be applied as it is, and says where it is from and of when.
func TestProfiles(t *testing.T) {
	t.Parallel()
	list, err := profiles.List()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 10 {
		t.Errorf("%d profiles", len(list))
	}
	day := regexp.MustCompile(`^(\d{4}-\d{2}-\d{2}) \(.+\)$`)
	for _, p := range list {
		if p.About == "" || len(p.Sources) == 0 {
			t.Errorf("%s: about %q, sources %q", p.Name, p.About, p.Sources)
		}
		for _, source := range p.Sources {
			if u, err := url.Parse(source); err != nil || u.Scheme != "https" || u.Host == "" {
				t.Errorf("%s: source %q is no address", p.Name, source)
			}
		}
		if m := day.FindStringSubmatch(p.Date); m == nil {
			t.Errorf("%s: date %q is not a day and how it is known", p.Name, p.Date)
		} else if _, err := time.Parse(time.DateOnly, m[1]); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		for _, word := range []string{"# key: ", "# limit: ", "# errors: "} {
			if !strings.Contains(p.Text, "\n"+word) {
				t.Errorf("%s has no %q", p.Name, word)
			}
		}
		if p.Class.HTTP.AllowPrivate {
			t.Errorf("%s allows private targets", p.Name)
		}
		for line := range strings.Lines(p.Text) {
			if len(line) > 121 {
				t.Errorf("%s: a line of %d characters: %s", p.Name, len(line)-1, line)
			}
		}
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	p, err := profiles.Get("github-rest")
	if err != nil || p.Class.Rate.String() != "4750/1h" || p.Class.MaxInFlight != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := profiles.Get("github"); err == nil || !strings.Contains(err.Error(), "airtable, discord, github-rest") {
		t.Errorf("%v, want the names that there are", err)
	}
}
