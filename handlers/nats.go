package handlers

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/hibiken/asynq"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATSPublishType is the type of the jobs that [NATSPublish] handles.
const NATSPublishType = "nats:publish"

// NATSOptions are the settings of a [NATSPublish].
type NATSOptions struct {
	// Conn is the connection to publish on; it stays the caller's to close. Make it with
	// nats.ReconnectBufSize(-1): else what is published while the server is away fails
	// here, goes out later all the same, and is published again by the next attempt.
	Conn *nats.Conn
	// Subjects are what may be published to: subjects, or patterns with * and >. There
	// must be at least one.
	Subjects []string
	// JetStream publishes to a stream, and an attempt is done when the stream has stored
	// the message. Without it an attempt is done when the server has the message, whether
	// or not anybody listens, or the server lets this client publish there.
	JetStream bool
	// Timeout bounds an attempt whose context has no deadline. Zero or less means 30 s.
	Timeout time.Duration
}

// NATSPublish is the [asynq.Handler] of the type [NATSPublishType]: each attempt publishes
// one message.
//
// The payload is a JSON object with these fields, named exactly so:
//
//	subject      without wildcards; one that the options allow
//	data         string
//	data_base64  string, for bytes that are not text; not together with data
//	headers      object of strings; none that begins with Nats-
//
// The header Nats-Msg-Id is the ref of the job, the same in every attempt, by which
// JetStream knows a message that it has already. What cannot be published as it is, fails
// for good; a server that is away is a failed attempt. It is safe for concurrent use.
type NATSPublish struct {
	o      NATSOptions
	stream jetstream.JetStream // nil without JetStream
}

// NewNATSPublish returns a NATSPublish, or says which of the options is wrong.
func NewNATSPublish(o NATSOptions) (*NATSPublish, error) {
	if o.Conn == nil {
		return nil, errors.New("handlers: no connection to NATS")
	}
	if len(o.Subjects) == 0 {
		return nil, errors.New("handlers: no subject may be published to; name those that may")
	}
	for _, pattern := range o.Subjects {
		if err := checkPattern(pattern); err != nil {
			return nil, fmt.Errorf("handlers: subject %q: %w", clip(pattern, maxName), err)
		}
	}
	o.Timeout = cmp.Or(max(o.Timeout, 0), defaultTimeout)
	p := &NATSPublish{o: o}
	if o.JetStream {
		stream, err := jetstream.New(o.Conn)
		if err != nil {
			return nil, fmt.Errorf("handlers: jetstream: %w", err)
		}
		p.stream = stream
	}
	return p, nil
}

// ProcessTask publishes the message of task.
func (p *NATSPublish) ProcessTask(ctx context.Context, task *asynq.Task) error {
	msg, err := parseMsg(task.Payload())
	if err != nil {
		return permanent(nil, "bad %s payload: %s", NATSPublishType, err)
	}
	if !slices.ContainsFunc(p.o.Subjects, func(pattern string) bool { return matchSubject(pattern, msg.Subject) }) {
		return permanent(ErrRefused, "publish to %q: target refused: it is none of the subjects that this worker may publish to",
			clip(msg.Subject, maxName))
	}
	msg.Header.Set(nats.MsgIdHdr, task.Headers()[headerRef])
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.o.Timeout)
		defer cancel()
	}
	if err := p.publish(ctx, msg); err != nil {
		return p.explain(msg, err)
	}
	return nil
}

func (p *NATSPublish) publish(ctx context.Context, msg *nats.Msg) error {
	if p.stream != nil {
		_, err := p.stream.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0)) // a retry is another attempt
		return err
	}
	if err := p.o.Conn.PublishMsg(msg); err != nil {
		return err
	}
	return p.o.Conn.FlushWithContext(ctx)
}

func (p *NATSPublish) explain(msg *nats.Msg, err error) error {
	what := "publish to " + clip(msg.Subject, maxName)
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return permanent(err, "%s: %d bytes of data are more than the %d that the server takes", what, len(msg.Data), p.o.Conn.MaxPayload())
	case errors.Is(err, nats.ErrBadSubject):
		return permanent(err, "%s: %s", what, err)
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("%s: no stream of JetStream takes this subject: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func parseMsg(payload []byte) (*nats.Msg, error) {
	var subject, text, bytes *string
	msg := &nats.Msg{Header: nats.Header{}}
	err := eachField(payload, func(name string, value json.RawMessage) error {
		switch name {
		case "subject":
			return decode(value, &subject)
		case "data":
			return decode(value, &text)
		case "data_base64":
			return decode(value, &bytes)
		case "headers":
			return parseMsgHeaders(value, msg.Header)
		}
		return errUnknownField
	})
	switch {
	case err != nil:
		return nil, err
	case subject == nil:
		return nil, errors.New(`field "subject": missing`)
	}
	if err := checkSubject(*subject); err != nil {
		return nil, fmt.Errorf(`field "subject": %w`, err)
	}
	msg.Subject = *subject
	msg.Data, err = textOrBytes("data", text, bytes)
	return msg, err
}

// textOrBytes reads a pair of fields of which one at most may be there: name with text, and
// name_base64.
func textOrBytes(name string, text, encoded *string) ([]byte, error) {
	switch {
	case text != nil && encoded != nil:
		return nil, fmt.Errorf("fields %q and %q: give one of them, not both", name, name+"_base64")
	case text != nil:
		return []byte(*text), nil
	case encoded != nil:
		b, err := base64.StdEncoding.Strict().DecodeString(*encoded)
		if err != nil {
			return nil, fmt.Errorf("field %q: not valid base64 (standard alphabet, padded)", name+"_base64")
		}
		return b, nil
	}
	return nil, nil
}

// parseMsgHeaders reads the headers of a payload. Those that begin with Nats- tell the
// server what to do, up to emptying a stream, and are not for a job.
func parseMsgHeaders(value json.RawMessage, header nats.Header) error {
	if string(value) == "null" {
		return nil
	}
	return eachField(value, func(name string, value json.RawMessage) error {
		var v *string
		if err := decode(value, &v); err != nil {
			return err
		}
		switch {
		case v == nil:
			return errors.New("must be a string")
		case !isToken(name):
			return errors.New("not a valid header name")
		case len(name) >= 5 && strings.EqualFold(name[:5], "Nats-"):
			return errors.New("not for a job to set: it is for the server")
		case !isHeaderValue(*v):
			return errors.New("its value has a control character")
		}
		header[name] = []string{*v}
		return nil
	})
}

const maxSubject = 255 // bytes

// checkSubject accepts what can be published to. Subjects of the server's own ($SYS, $JS)
// and of answers to others' requests are not.
func checkSubject(subject string) error {
	if err := checkPattern(subject); err != nil {
		return err
	}
	if strings.ContainsAny(subject, "*>") {
		return errors.New("has a wildcard")
	}
	if subject[0] == '$' || strings.HasPrefix(subject, "_INBOX.") {
		return errors.New("is not for jobs")
	}
	return nil
}

// checkPattern accepts subjects in which a whole token may be *, and the last one >.
func checkPattern(pattern string) error {
	if len(pattern) > maxSubject {
		return fmt.Errorf("has more than %d bytes", maxSubject)
	}
	tokens := strings.Split(pattern, ".")
	for i, token := range tokens {
		switch {
		case token == "":
			return errors.New("is empty, or a part of it between dots is")
		case strings.ContainsFunc(token, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
			return errors.New("has a space or a character that cannot be printed")
		case len(token) > 1 && strings.ContainsAny(token, "*>"), token == ">" && i < len(tokens)-1:
			return errors.New("has a wildcard where none can be")
		}
	}
	return nil
}

// matchSubject tells whether a subject is one that pattern means.
func matchSubject(pattern, subject string) bool {
	want, got := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range want {
		switch {
		case token == ">":
			return len(got) > i
		case i >= len(got), token != "*" && token != got[i]:
			return false
		}
	}
	return len(want) == len(got)
}
