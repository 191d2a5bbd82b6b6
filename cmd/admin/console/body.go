package console

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
)

// How large bodies may be, in bytes.
const (
	loginBody = 16 << 10
	jobBody   = 1<<20 + 64<<10 // the largest payload, and what is around it
	pagesBody = 1<<20 + 128<<10
	batchBody = 32 << 20
	// bodiesMost is how much of bodies may be in memory at once. Small ones do not count.
	bodiesMost = 256 << 20
	smallBody  = 64 << 10
)

// depthMost is how deep JSON may be nested: the 500 levels of a job, in the list of a batch.
const depthMost = 500 + 2

func apiBody(path string) int64 {
	if strings.HasSuffix(path, "/v1/jobs/batch") {
		return batchBody
	}
	return jobBody
}

// withBody reads the body before it passes a request on, so that whoever gets it need not fear for size, depth or patience. A
// handler may then answer for as long as it likes, if it sets the write deadline of what it writes.
func (c *Console) withBody(w http.ResponseWriter, r *http.Request, most int64, to http.Handler) {
	body, refused := c.readBody(w, r, most)
	defer body.release()
	if refused != none {
		w.Header().Set("Connection", "close") // what else comes is not read
		if refused == busy {
			retryAfter(w, time.Second)
		}
		c.refuse(w, r, refused)
		return
	}
	// All has been read, so nothing can be late any more. Not every connection has deadlines.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	to.ServeHTTP(w, r)
}

// readBody puts the body into memory, or says why not.
func (c *Console) readBody(w http.ResponseWriter, r *http.Request, most int64) (*body, refusal) {
	b := &body{share: c.bodies}
	switch {
	case r.ContentLength == 0:
		return b, none
	case r.ContentLength > most:
		return b, tooLarge
	}
	b.from = http.MaxBytesReader(w, r.Body, most)
	var all bytes.Buffer
	all.Grow(int(min(max(r.ContentLength, 0), smallBody)) + bytes.MinRead) // more only when it has come
	_, err := all.ReadFrom(b)
	if err != nil {
		return b, whyUnread(err)
	}
	data := all.Bytes()
	if isJSON(r.Header.Get("Content-Type")) && deeper(data, depthMost) {
		return b, tooDeep
	}
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
	return b, none
}

func whyUnread(err error) refusal {
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		return tooLarge
	case errors.Is(err, errBusy):
		return busy
	}
	return cutShort
}

var errBusy = errors.New("console: too much is being sent at once")

// body takes its share of the memory for bodies as it grows.
type body struct {
	from       io.Reader
	share      *semaphore.Weighted
	size, held int64
}

// Read is [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.size += int64(n); b.size > smallBody {
		if more := b.size - b.held; !b.share.TryAcquire(more) {
			return n, errBusy
		}
		b.held = b.size
	}
	return n, err
}

func (b *body) release() { b.share.Release(b.held) }

func isJSON(contentType string) bool {
	if contentType == "application/json" { // what nearly all send
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err != nil || strings.HasSuffix(media, "json") // where nothing is said, too
}

// deeper tells whether JSON is nested deeper than some levels. It does not matter what it says of anything else.
func deeper(data []byte, most int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch b := data[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{', b == '[':
			if depth++; depth > most {
				return true
			}
		case b == '}', b == ']':
			depth--
		}
	}
	return false
}
