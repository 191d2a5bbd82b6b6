package api

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/internal/metercheck"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/queue"
)

func (s *server) routeMeter() {
	op := s.operation(http.MethodPost, "/v1/meter/check", "service", "Ask a meter",
		"May this happen now? The question has the limit; see docs/meter.md. Yes and no are both 200: see conform.",
		queue.ReasonTooLarge, reasonUnsupported)
	op.MaxBodyBytes = smallBody
	s.reads(&op, reflect.TypeFor[wire.Question](), map[string]any{"key": "user-7:login", "limit": "5/60s"})
	s.answers(&op, http.StatusOK, "What the meter says.", reflect.TypeFor[wire.Decision]())
	s.direct(op, s.checkMeter)
}

func (s *server) checkMeter(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	d, err := s.desk.CheckMeter(r.Context(), body)
	switch {
	case errors.Is(err, meter.ErrUnavailable), errors.Is(err, access.ErrDenied), errors.Is(err, queue.ErrInvalid):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", queue.ErrInvalid, err)
	}
	if !d.Conform && !d.Never {
		w.Header().Set("Retry-After", strconv.FormatInt(seconds(d.RetryAfter), 10))
	}
	return sendJSON(w, http.StatusOK, metercheck.Say(d))
}
