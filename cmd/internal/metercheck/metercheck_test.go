package metercheck_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/cmd/internal/metercheck"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/queue"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		client, err := queue.Open(t.Context(), rdb, queue.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m := metercheck.New(client)
		for i, test := range []struct {
			question string
			conform  bool
			left     int64
			never    bool
		}{
			{`{"key":"a","limit":"2/1h"}`, true, 1, false},
			{`{"key":"a","limit":"2/1h","peek":true}`, true, 1, false},
			{`{"key":"a","limit":"2/1h"}`, true, 0, false},
			{`{"key":"a","limit":"2/1h"}`, false, 0, false},
			{`{"key":"b","limit":"2/1h","cost":3}`, false, 2, true},
			{`{"key":"a","limit":"2/1h","capacity":5}`, true, 3, false}, // another limit of the same key: the same bucket, with more room
			{`{"key":"a","limit":"2/1h","algorithm":"fixed-window"}`, true, 1, false},
		} {
			d, err := m.Decide(t.Context(), []byte(test.question))
			said := metercheck.Say(d)
			if err != nil || said.Conform != test.conform || said.Never != test.never || (said.RetryAfterMS != nil) != (!test.conform && !test.never) {
				t.Errorf("%d: %s: %+v, %v", i, test.question, said, err)
			}
			if i != 5 && said.Remaining != test.left {
				t.Errorf("%d: %s: %d left, want %d", i, test.question, said.Remaining, test.left)
			}
		}
		for question, want := range map[string]string{
			``: "ends too early", `{}`: `"limit" is missing`, `{"key":"a","limit":"x"}`: "", `{"key":"","limit":"1/1s"}`: "",
			`{"key":"a","limit":"1/1s","algorithm":"x"}`: "", `{"key":"a","limit":"1/1s","Peek":true}`: "unknown field",
			`{"key":"a","limit":"1/1s","cost":-1}`: "", `{"key":"a","limit":"1/1s","cost":1e400}`: "",
		} {
			_, err := m.Decide(t.Context(), []byte(question))
			if err == nil || errors.Is(err, meter.ErrUnavailable) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", question, err, want)
			}
		}
	})
}
