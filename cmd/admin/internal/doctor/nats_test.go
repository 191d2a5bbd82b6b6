package doctor_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/cmd/admin/internal/doctor"
	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
	"github.com/spout-queue/spout/internal/natstest"
)

func TestNATS(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	js, err := jetstream.New(server.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	config := jobstream.Default()
	examine := func(c jobstream.Config, want ...string) {
		t.Helper()
		var got []string
		for _, f := range doctor.ExamineNATS(t.Context(), natsconn.Options{URL: server.URL, Log: slog.New(slog.DiscardHandler)}, c) {
			got = append(got, string(f.Verdict)+" "+f.Check+" "+f.Text())
		}
		for i, prefix := range want {
			if len(got) != len(want) || !strings.HasPrefix(got[i], prefix) {
				t.Errorf("got %q, want %q", got, want)
				return
			}
		}
	}
	examine(config, "ok nats nats-server ", "ok stream no SPOUT_JOBS yet")
	stream, _, err := jobstream.Ensure(t.Context(), js, config)
	if err != nil {
		t.Fatal(err)
	}
	examine(config, "ok nats ", "ok stream SPOUT_JOBS, File storage, 1 replicas", "ok waiting 0 messages", "ok bridges none runs")
	if _, err := js.Publish(t.Context(), config.Subjects.Jobs("calls", "k"), nil); err != nil {
		t.Fatal(err)
	}
	examine(config, "ok nats ", "ok stream ", "ok waiting 1 messages of 1 keys", "FAIL bridges nobody carries")
	consume := func(name, class string) {
		t.Helper()
		if _, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
			Durable: name, FilterSubjects: config.Filters(class), AckPolicy: jetstream.AckExplicitPolicy,
		}); err != nil {
			t.Fatal(err)
		}
	}
	consume(jobstream.Consumer(strings.Repeat("x", 22), "calls"), "calls")
	examine(config, "ok nats ", "ok stream ", "ok waiting ", "warn bridges gone, with the classes calls")
	consume("peek-mails", "mails")
	examine(config, "ok nats ", "ok stream ", "ok waiting ", "warn bridges the consumer peek-mails is no bridge's")

	// One that hangs is told from one that lives.
	if err := stream.DeleteConsumer(t.Context(), "peek-mails"); err != nil {
		t.Fatal(err)
	}
	lives := strings.Repeat("z", 22)
	nc := server.Client(t)
	for id, answer := range map[string]bool{strings.Repeat("x", 22): false, lives: true} {
		if _, err := nc.Subscribe("$SRV.PING.spout."+id, func(m *nats.Msg) {
			if answer {
				_ = m.Respond(nil)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	consume(jobstream.Consumer(lives, "mails"), "mails")
	examine(config, "ok nats ", "ok stream ", "ok waiting ", "warn bridges gone, with the classes calls;")

	loses := jobstream.Config{Name: "LOSES", Subjects: "other"}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LOSES", Subjects: []string{"other"}, MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	examine(loses, "ok nats ", "FAIL stream the stream does not fit", "ok waiting ", "ok bridges ")
	server.Stop()
	examine(config, "FAIL nats ")
}
