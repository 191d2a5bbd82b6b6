package console

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
)

// observed gives a request its id, survives what breaks while it is answered, and logs it: never its query, header or body, which
// may be secret.
func (c *Console) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		a := &answer{ResponseWriter: w}
		id := rand.Text()
		w.Header().Set("X-Request-Id", id)
		c.survived(a, r, id, next)
		if c.log.Enabled(r.Context(), slog.LevelDebug) {
			c.log.LogAttrs(r.Context(), slog.LevelDebug, "answered", named(r, id),
				slog.Int("status", a.status), slog.Duration("took", time.Since(began)))
		}
	})
}

// named says in the log which request it was.
func named(r *http.Request, id string) slog.Attr {
	return slog.Group("request", slog.String("id", id), slog.String("method", r.Method), slog.String("path", r.URL.Path))
}

// survived has a request answered, whatever breaks.
func (c *Console) survived(w *answer, r *http.Request, id string, by http.Handler) {
	defer func() {
		if what := recover(); what != nil {
			c.survive(w, r, id, what)
		}
	}()
	by.ServeHTTP(w, r)
}

// survive answers for a handler that has panicked, or ends the connection when it has begun to answer.
func (c *Console) survive(w *answer, r *http.Request, id string, what any) {
	if err, ok := what.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(what) // it is meant to
	}
	c.log.LogAttrs(r.Context(), slog.LevelError, "a handler of the console panicked", named(r, id),
		slog.String("panic", fmt.Sprint(what)), slog.String("stack", string(debug.Stack())))
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	c.refuse(w, r, broken)
}

// answer remembers the status.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader is [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write is [http.ResponseWriter].
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Flush is [http.Flusher], for those who do not ask a response controller.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
