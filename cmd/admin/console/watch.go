package console

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
)

// watchEvery is for how long a stream may go on after its reader logged out, or has another role.
const watchEvery = 2 * time.Second

// isStream tells whether a request lasts for as long as its sender wants.
func (c *Console) isStream(r *http.Request) bool {
	return r.URL.Path == c.base+"/live" || r.URL.Path == c.base+"/v1/events"
}

// watch ends a stream when its reader may not be there any more, or not as who it began for: it begins anew, or not.
func (c *Console) watch(ctx context.Context, r *http.Request, reader access.Person, end func()) {
	defer func() {
		if recover() != nil { // of somebody's Authenticate: the stream begins anew, and that is where it is told
			end()
		}
	}()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if is, err := c.authenticate(r); err != nil || !reflect.DeepEqual(is, reader) {
				end()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// loginAgain is where a page leads whose session has ended: to the login, and from there back to it.
func (c *Console) loginAgain(r *http.Request) string {
	at, err := url.Parse(r.Header.Get("Hx-Current-Url"))
	if err != nil || !strings.HasPrefix(at.Path, c.base+"/") {
		return c.base + "/login"
	}
	return c.base + "/login?next=" + url.QueryEscape(at.RequestURI())
}
