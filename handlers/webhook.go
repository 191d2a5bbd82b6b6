package handlers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// WebhookType is the type of the jobs that [Webhook] handles.
const WebhookType = "webhook:send"

// Webhook is the [asynq.Handler] of the type [WebhookType]: each attempt posts one
// message, signed as Standard Webhooks (https://www.standardwebhooks.com) has it.
//
// The payload is a JSON object with these fields, all required:
//
//	url     as in a payload of http:call
//	secret  the name of the signing secret
//	body    the message: a JSON object
//
// The message is sent with the headers webhook-id (the job's ref: the same in every
// attempt, so that a receiver knows what it has had), webhook-timestamp (of the
// attempt) and webhook-signature. The secret is resolved in the worker at each attempt
// and is nowhere else; it is base64 of 24 to 64 bytes, after whsec_ if you like. The
// class must list it in http: {secrets: [...]}, with hosts beside it: who can have a
// message signed and sent to themselves could send it on in our name.
//
// An answer of 2xx is done, and the result is that of an HTTPCall. 410 Gone says that the receiver wants no more of this: the
// job is dead at once. Everything else is as with [HTTPCall], the class's http
// settings too, since it is an HTTPCall that sends.
type Webhook struct {
	call   *HTTPCall
	secret func(name string) (string, error)
}

// NewWebhook returns a Webhook that sends with call and asks secret for secrets by name.
// The errors of secret are shown and must not tell any secret. It may be called from
// many goroutines.
func NewWebhook(call *HTTPCall, secret func(name string) (string, error)) *Webhook {
	return &Webhook{call: call, secret: secret}
}

// ProcessTask posts the message of task.
func (w *Webhook) ProcessTask(ctx context.Context, task *asynq.Task) error {
	m, err := parseMessage(task.Payload())
	if err != nil {
		return permanent(nil, "bad %s payload: %s", WebhookType, err)
	}
	t, err := targetOf(task.Headers())
	if err != nil {
		return err
	}
	if !slices.Contains(t.secrets, m.secret) || len(t.hosts) == 0 {
		return permanent(ErrRefused, "secret %q refused: it is not in http: {secrets: [...]} of class %q, with hosts beside it", m.secret, t.class)
	}
	headers, err := w.sign(m, task.Headers()[headerRef], time.Now())
	if err != nil {
		return err
	}
	payload, err := json.Marshal(callPayload{Method: http.MethodPost, URL: m.url, Headers: headers, Body: string(m.body)})
	if err != nil {
		return permanent(nil, "bad %s payload: %s", WebhookType, err)
	}
	var result []byte
	err = w.call.ProcessTask(listen(ctx, &result), asynq.NewTaskWithHeaders(HTTPCallType, payload, task.Headers()))
	if answer, ok := errors.AsType[*StatusError](err); ok && answer.Status == http.StatusGone {
		return permanent(err, "%s; the receiver wants no more messages", err)
	}
	if w := task.ResultWriter(); err == nil && w != nil {
		_, err = w.Write(result)
	}
	return err
}

// The bounds of a signing key, in bytes, are those of Standard Webhooks.
const leastKey, mostKey = 24, 64

// sign returns the headers of a message that is sent at now.
func (w *Webhook) sign(m *message, id string, now time.Time) (map[string]string, error) {
	secret, err := w.secret(m.secret)
	if err != nil {
		return nil, fmt.Errorf("no secret %q to sign the message with: %w", m.secret, err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(secret), "whsec_"))
	if err != nil || len(key) < leastKey || len(key) > mostKey {
		return nil, fmt.Errorf("secret %q cannot sign a message: it must be base64 of %d to %d bytes, with or without whsec_ before it",
			m.secret, leastKey, mostKey)
	}
	hook, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		return nil, fmt.Errorf("secret %q cannot sign a message", m.secret)
	}
	signature, err := hook.Sign(id, now, m.body)
	if err != nil {
		return nil, fmt.Errorf("secret %q cannot sign this message", m.secret)
	}
	return map[string]string{
		"Content-Type":                          "application/json",
		standardwebhooks.HeaderWebhookID:        id,
		standardwebhooks.HeaderWebhookTimestamp: strconv.FormatInt(now.Unix(), 10),
		standardwebhooks.HeaderWebhookSignature: signature,
	}, nil
}

// message is a payload of the type [WebhookType].
type message struct {
	url    string
	secret string
	body   json.RawMessage
}

// messagePayload is how it is written.
type messagePayload struct {
	URL    string `json:"url"`
	Secret string `json:"secret"`
	Body   any    `json:"body"`
}

func parseMessage(payload []byte) (*message, error) {
	var target, secret *string
	m := new(message)
	err := eachField(payload, func(name string, value json.RawMessage) error {
		switch name {
		case "url":
			return decode(value, &target)
		case "secret":
			return decode(value, &secret)
		case "body":
			if len(value) == 0 || value[0] != '{' {
				return errNoObject
			}
			m.body = value
			return nil
		}
		return errUnknownField
	})
	switch {
	case err != nil:
		return nil, err
	case m.body == nil:
		return nil, errors.New(`field "body": missing`)
	}
	if _, err := parseURL(target); err != nil {
		return nil, err
	}
	if err := checkSecretName(secret); err != nil {
		return nil, err
	}
	m.url, m.secret = *target, *secret
	return m, nil
}

func checkSecretName(name *string) error {
	switch {
	case name == nil:
		return errors.New(`field "secret": missing`)
	case !secretName.MatchString(*name):
		return errors.New(`field "secret": not the name of a secret: 1 to 64 of a-z 0-9 _ -`)
	}
	return nil
}
