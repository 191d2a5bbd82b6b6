package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/cmd/internal/jobline"
	"github.com/spout-queue/spout/cmd/internal/tracing"
	"github.com/spout-queue/spout/queue"
)

func enqueue(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "enqueue", Usage: "put one job into its bucket and print the receipt",
		Description: `A job that is admitted or was so before (a duplicate) exits with 0, one for which there is no room now
with 75: come back after the time that is told. A bucket that is draining admits nothing until it is resumed: 75 too.
After 69 with reason unknown, repeat the job with the id that is told.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "class", Usage: "`NAME` of the class (required)"},
			&cli.StringFlag{Name: "key", Usage: "`KEY` of the bucket, such as a tenant (required)"},
			&cli.StringFlag{Name: "id", Usage: "`ID` that makes the job the same when it is sent again", DefaultText: "a random one"},
			&cli.StringFlag{Name: "type", Usage: "`NAME` of the handler", DefaultText: queue.DefaultType},
			&cli.StringFlag{Name: "payload", Usage: "`JSON` for the handler (this or --payload-file is required)"},
			&cli.StringFlag{Name: "payload-file", Usage: "`FILE` with the payload; - is standard input"},
			&cli.StringFlag{Name: "max-wait", Usage: "longest `DURATION` to wait in line", DefaultText: "no limit"},
			&cli.StringFlag{Name: "not-before", Usage: "`TIME` to join the line, in RFC 3339", DefaultText: "now"},
			ackFlag(),
			storeFlag(),
		},
		Run: runEnqueue,
	})
}

func runEnqueue(ctx context.Context, s *command.Session) error {
	job, err := jobOf(s)
	if err != nil {
		return err
	}
	client, err := s.Open(ctx)
	if err != nil {
		return err
	}
	traced, err := tracing.Open(ctx, s.Getenv, "producer", s.Log)
	if err != nil {
		return &exit.Error{Status: exit.Config, Err: err}
	}
	ctx, told := traced.Submit(ctx, &job)
	receipt, err := client.Submit(ctx, job)
	told(receipt, err)
	if unsent := traced.Close(ctx); unsent != nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "the last traces could not be sent", slog.Any("error", unsent))
	}
	if err != nil {
		return err
	}
	return answer.Receipt(s.Printer, receipt)
}

// jobOf reads the job off the flags. What is wrong with it is told by the queue, as for any other door.
func jobOf(s *command.Session) (queue.Job, error) {
	f := s.Flags
	for _, name := range []string{"class", "key"} {
		if !f.IsSet(name) {
			return queue.Job{}, exit.Usagef("--%s is missing; see producer enqueue -h", name)
		}
	}
	payload, err := payloadOf(s)
	if err != nil {
		return queue.Job{}, err
	}
	if !utf8.Valid(payload) { // as for any other door; JSON is UTF-8
		return queue.Job{}, fmt.Errorf("%w: payload is not valid UTF-8", queue.ErrInvalid)
	}
	job := queue.Job{
		Class: f.String("class"), Key: f.String("key"), ID: f.String("id"), Type: f.String("type"), Payload: payload,
	}
	if f.String("max-wait") != "" {
		if job.MaxWait, err = jobline.ParseMaxWait(f.String("max-wait")); err != nil {
			return job, s.Wrong("max-wait", err)
		}
	}
	if f.String("not-before") != "" {
		if job.NotBefore, err = jobline.ParseNotBefore(f.String("not-before")); err != nil {
			return job, s.Wrong("not-before", err)
		}
	}
	job.Ack, err = ackOf(s)
	return job, err
}

func storeFlag() cli.Flag {
	return &cli.FloatFlag{
		Name: "store-share", Value: queue.DefaultStoreShare,
		Usage: "`SHARE` of Redis's maxmemory for jobs: above it submissions are refused as store_full, and what is there drains",
	}
}

func ackFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "ack", DefaultText: "what the class asks for",
		Usage: "what the receipt must vouch for, in place of what the class asks for: `ACK` is memory, fsynced or replicated(n)",
	}
}

func ackOf(s *command.Session) (queue.Ack, error) {
	text := s.Flags.String("ack")
	if text == "" {
		return "", nil
	}
	ack, err := queue.ParseAck(text)
	if err != nil {
		return "", s.Wrong("ack", err)
	}
	return ack, nil
}

func payloadOf(s *command.Session) (json.RawMessage, error) {
	text, file := s.Flags.String("payload"), s.Flags.String("payload-file")
	switch {
	case text != "" && file != "":
		return nil, exit.Usagef("--payload and --payload-file are both given; one will do")
	case text == "" && file == "":
		return nil, exit.Usagef("the payload is missing: give --payload JSON or --payload-file FILE; any JSON value will do, null too")
	case text != "":
		return json.RawMessage(text), nil
	}
	input, err := open(s, file)
	if err != nil {
		return nil, s.Wrong("payload-file", err)
	}
	defer input.Close() //nolint:errcheck // only read
	// One byte more than any class allows is enough to be refused.
	data, err := io.ReadAll(io.LimitReader(input, lineMost))
	if err != nil {
		return nil, &exit.Error{Status: exit.IO, Err: fmt.Errorf("read the payload: %w", err)}
	}
	return data, nil
}

// lineMost is more than the largest payload with room for blanks.
const lineMost = 2 << 20

// open opens a file, or standard input when it is called -.
func open(s *command.Session, name string) (io.ReadCloser, error) {
	if name == "-" {
		if file, ok := s.Stdin.(*os.File); ok {
			return file, nil
		}
		return io.NopCloser(s.Stdin), nil
	}
	file, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s is a directory", name), file.Close())
	}
	return file, nil
}
