package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/internal/strictjson"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

type bucketsInput struct {
	Class  string `query:"class" doc:"The class of the buckets; with order=name all by default." example:"github-api"`
	Order  string `query:"order" doc:"pressure: sick ones, then the fullest of those that are due first, on one page. name: all that are there, page by page." enum:"pressure,name" default:"pressure"`
	Prefix string `query:"prefix" doc:"How their keys begin; with order=name."`
	Paging
}

func (s *server) routeBuckets() {
	route(s, s.operation(http.MethodGet, "/v1/buckets", "buckets", "List buckets",
		"A page may be short, even empty, and still have a next.", queue.ReasonUnknownClass), s.listBuckets)
	for _, place := range []string{"/v1/classes/{class}/buckets/{key}", "/v1/classes/{class}/bucket"} {
		op := s.targetOperation(http.MethodGet, place, "", "Look at a bucket",
			"One that nobody used lately is empty, which is no error. In the path, a key is one segment: / in it is %2F. The keys /, . and .. cannot be in a path, of which clients and servers make another: they go as ?key=.")
		s.answers(&op, http.StatusOK, "The bucket.", reflect.TypeFor[wire.Bucket]())
		s.direct(op, func(w http.ResponseWriter, r *http.Request) error {
			t, err := targetOf(r, true)
			if err != nil {
				return err
			}
			bucket, err := s.desk.Bucket(r.Context(), t)
			if err != nil {
				return err
			}
			return sendJSON(w, http.StatusOK, wire.FromBucket(bucket))
		})
	}
	for _, place := range []string{"/v1/classes/{class}", "/v1/classes/{class}/buckets/{key}", "/v1/classes/{class}/bucket"} {
		s.routeOperate(place)
	}
}

func (s *server) listBuckets(ctx context.Context, in *bucketsInput) (*output[wire.Page[wire.Bucket]], error) {
	if in.Order == "name" {
		list, next, err := s.desk.BucketPage(ctx, queue.BucketQuery{Class: in.Class, Prefix: in.Prefix, After: in.Cursor, Limit: in.Limit})
		return pageOf(list, next, wire.FromBucket), err
	}
	if in.Class == "" || in.Prefix != "" || in.Cursor != "" {
		return nil, fmt.Errorf("%w: order=pressure needs a class, and has neither prefix nor cursor; see order=name", queue.ErrInvalid)
	}
	list, err := s.desk.Buckets(ctx, in.Class, in.Limit)
	return pageOf(list, "", wire.FromBucket), err
}

// targetOperation describes what is done to a class or to a bucket.
func (s *server) targetOperation(method, place, action, summary, description string, reasons ...queue.Reason) huma.Operation {
	path, tag := place, "buckets"
	if action != "" {
		path += "/" + action
	}
	if place == "/v1/classes/{class}" {
		tag = "classes"
	}
	op := s.operation(method, path, tag, summary, description, append(reasons, queue.ReasonUnknownClass, queue.ReasonUnknown)...)
	op.Parameters = append(op.Parameters, param("path", "class", "The name of the class.", "github-api"))
	switch place {
	case "/v1/classes/{class}/buckets/{key}":
		op.Parameters = append(op.Parameters, param("path", "key", "The key of the bucket, percent-encoded.", "tenant-42"))
	case "/v1/classes/{class}/bucket":
		key := param("query", "key", "The key of the bucket.", "tenant-42")
		key.Required = true
		op.Parameters = append(op.Parameters, key)
	}
	return op
}

// targetOf reads which class or bucket a request is about. A key is not skipped in silence: it would be done to the whole class.
func targetOf(r *http.Request, bucket bool) (desk.Target, error) {
	t := desk.Target{Class: r.PathValue("class"), Key: r.PathValue("key")}
	if !bucket {
		return t, nil
	}
	if t.Key == "" {
		t.Key = r.URL.Query().Get("key")
	}
	if t.Key == "" {
		return t, fmt.Errorf("%w: the key is missing", queue.ErrInvalid)
	}
	return t, queue.CheckKey(t.Key)
}

// sendTarget answers with how a class or a bucket stands after something was done to it.
func (s *server) sendTarget(w http.ResponseWriter, r *http.Request, t desk.Target, changed bool) error {
	if t.Key == "" {
		class, err := s.classNow(r.Context(), t.Class)
		if err != nil {
			return err
		}
		w.Header().Set("ETag", class.ETag)
		return sendJSON(w, http.StatusOK, wire.ClassNow{ClassState: class.Body, Unchanged: !changed})
	}
	bucket, err := s.desk.Bucket(r.Context(), t)
	if err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, wire.BucketNow{Bucket: wire.FromBucket(bucket), Unchanged: !changed})
}

// routeOperate adds what closes, opens and empties a class or a bucket.
func (s *server) routeOperate(place string) {
	isBucket, of, answers := true, "a bucket", reflect.TypeFor[wire.BucketNow]()
	if place == "/v1/classes/{class}" {
		isBucket, of, answers = false, "a class", reflect.TypeFor[wire.ClassNow]()
	}
	for _, a := range []struct {
		action, summary, description string
		do                           func(context.Context, *http.Request, desk.Target) (bool, error)
	}{
		{"pause", "Pause " + of, "Closed until it is resumed. Submissions go on until it is full; nobody can tell a retry-after then.", s.plainly(s.desk.Pause)},
		{"resume", "Resume " + of, "Ends pause and drain, and opens what workers had set aside. Nothing is made up for.", s.plainly(s.desk.Resume)},
		{"drain", "Drain " + of, "Admits nothing more and lets it empty, until it is resumed.", s.plainly(s.desk.Drain)},
		{"unhold", "End the hold of " + of, "", s.plainly(s.desk.Unhold)},
		{"hold", "Hold " + of, "Closed until a time, in place of any hold before; submissions go on. Nothing is made up for.", s.hold},
	} {
		op := s.targetOperation(http.MethodPost, place, a.action, a.summary, a.description, reasonUnsupported)
		if a.action == "hold" {
			op.MaxBodyBytes = smallBody
			s.reads(&op, reflect.TypeFor[wire.Hold](), map[string]any{"for": "90s"})
		}
		s.answers(&op, http.StatusOK, "How it stands now. What was so already is unchanged, and not in the log of changes.", answers)
		s.direct(op, func(w http.ResponseWriter, r *http.Request) error {
			t, err := targetOf(r, isBucket)
			if err != nil {
				return err
			}
			changed, err := a.do(r.Context(), r, t)
			if err != nil {
				return err
			}
			if err := s.sendTarget(w, r, t, changed); errors.Is(err, queue.ErrUnavailable) { // else it would say that nothing was done
				return fmt.Errorf("%w: it was done; how it stands now cannot be read: %v", queue.ErrUnknown, err) //nolint:errorlint // it is not that
			} else if err != nil {
				return err
			}
			return nil
		})
	}
	s.routePurge(place, of, isBucket)
}

func (s *server) plainly(do func(context.Context, desk.Target) (bool, error)) func(context.Context, *http.Request, desk.Target) (bool, error) {
	return func(ctx context.Context, _ *http.Request, t desk.Target) (bool, error) { return do(ctx, t) }
}

const smallBody = 16 << 10

func (s *server) hold(ctx context.Context, r *http.Request, t desk.Target) (changed bool, err error) {
	body, err := readBody(r)
	if err != nil {
		return false, err
	}
	var hold wire.Hold
	if err := strictly(body, &hold); err != nil {
		return false, err
	}
	switch {
	case (hold.For != 0) == (hold.Until != nil):
		return false, fmt.Errorf("%w: say until when, by one of for and until", queue.ErrInvalid)
	case hold.Until != nil:
		until := time.Time(*hold.Until)
		if !until.After(time.Now()) {
			return false, fmt.Errorf("%w: until %s is past; to open it, use unhold", queue.ErrInvalid, until.Format(time.RFC3339))
		}
		return s.desk.Hold(ctx, t, until)
	case time.Duration(hold.For) < time.Millisecond:
		return false, fmt.Errorf("%w: for is below 1ms; to open it, use unhold", queue.ErrInvalid)
	}
	now, err := s.desk.Now(ctx) // by the clock that counts
	if err != nil {
		return false, err
	}
	return s.desk.Hold(ctx, t, now.Add(time.Duration(hold.For)))
}

// Confirmation is the second asking of what cannot be undone.
type Confirmation struct {
	Confirm string `query:"confirm" doc:"How many jobs may be dropped, as the answer without it tells. When more are there by then, it asks again." pattern:"^[0-9]{1,15}$" example:"57"`
}

// check asks for a confirmation of at least as many jobs as would be dropped.
func (c Confirmation) check(what string, would int64) error {
	agreed, err := strconv.ParseInt(c.Confirm, 10, 64)
	if c.Confirm != "" && err != nil {
		return fmt.Errorf("%w: confirm %q is not a number of jobs", queue.ErrInvalid, clip(c.Confirm))
	}
	if c.Confirm != "" && agreed >= would {
		return nil
	}
	p := newProblem(wire.ReasonUnconfirmed, fmt.Sprintf("to %s drops %d jobs; ask again with confirm=%d to agree", what, would, would))
	p.Confirm, p.Waiting = strconv.FormatInt(would, 10), &would
	return p
}

func (s *server) routePurge(place, of string, isBucket bool) {
	op := s.targetOperation(http.MethodPost, place, "purge", "Purge "+of,
		"Drops all jobs that wait. What is out goes on, and the dead stay. Asks twice.", wire.ReasonUnconfirmed)
	op.Parameters = append(op.Parameters, param("query", "confirm",
		"How many jobs may be dropped, as the answer without it tells. When more are there by then, it asks again.", "57"))
	s.answers(&op, http.StatusOK, "How many were dropped.", reflect.TypeFor[wire.Purged]())
	s.direct(op, func(w http.ResponseWriter, r *http.Request) error {
		t, err := targetOf(r, isBucket)
		if err != nil {
			return err
		}
		would, err := s.waiting(r.Context(), t)
		if err != nil {
			return err
		}
		if err := (Confirmation{r.URL.Query().Get("confirm")}).check("purge "+t.String(), would); err != nil {
			return err
		}
		n, err := s.desk.Purge(r.Context(), t)
		if err != nil && n > 0 {
			p := s.refusal(r.Context(), err)
			p.Done = &wire.Done{Waiting: n}
			return p
		} else if err != nil {
			return err
		}
		return sendJSON(w, http.StatusOK, wire.Purged{Class: t.Class, Key: t.Key, Purged: n})
	})
}

// waiting is how many jobs a purge of a target would drop.
func (s *server) waiting(ctx context.Context, t desk.Target) (int64, error) {
	if err := s.desk.Allow(ctx, access.Admin, t.Class); err != nil {
		return 0, err
	}
	if t.Key != "" {
		bucket, err := s.desk.Bucket(ctx, t)
		return int64(bucket.Level), err
	}
	if _, err := s.desk.Class(ctx, t.Class); err != nil {
		return 0, err
	}
	books, err := s.desk.Books(ctx, t.Class)
	return books.Waiting(), err
}

// strictly reads a small object.
func strictly(body []byte, to any) error {
	if err := strictjson.Decode(body, to); err != nil {
		return fmt.Errorf("%w: %w", queue.ErrInvalid, err)
	}
	return nil
}
