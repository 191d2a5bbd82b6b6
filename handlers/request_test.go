package handlers_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
)

func TestPayloadBecomesTheRequest(t *testing.T) {
	t.Parallel()
	type seen struct{ Method, Target, Body, UserAgent, Accept string }
	for name, test := range map[string]struct {
		path    string
		payload object
		want    seen
	}{
		"defaults":       {"/a?b=c#d", object{}, seen{"GET", "/a?b=c", "", "spout/1", ""}},
		"nulls":          {"/", object{"method": nil, "headers": nil, "body": nil, "body_base64": nil}, seen{"GET", "/", "", "spout/1", ""}},
		"method is mine": {"/", object{"method": "purge"}, seen{"PURGE", "/", "", "spout/1", ""}},
		"escaped path":   {"/a%2Fb/%C3%A9", object{}, seen{"GET", "/a%2Fb/%C3%A9", "", "spout/1", ""}},
		"body":           {"/", object{"method": "POST", "body": "é\n"}, seen{"POST", "/", "é\n", "spout/1", ""}},
		"bytes":          {"/", object{"method": "PUT", "body_base64": "AP8="}, seen{"PUT", "/", "\x00\xff", "spout/1", ""}},
		"headers": {
			"/",
			object{"headers": object{"user-agent": "me", "ACCEPT": "text/x;\tq=1"}},
			seen{"GET", "/", "", "me", "text/x;\tq=1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got seen
			srv := newService(t, func(_ http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				got = seen{r.Method, r.RequestURI, string(body), r.UserAgent(), r.Header.Get("Accept")}
			})
			test.payload["url"] = srv.URL + test.path
			if err := newCall(t, handlers.HTTPOptions{}).ProcessTask(t.Context(), task(t, test.payload)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadPayloadFailsForGood(t *testing.T) {
	t.Parallel()
	const u = `"url":"http://a.example/"`
	for payload, want := range map[string]string{
		``:                               "not a JSON object",
		`null`:                           "not a JSON object",
		`[]`:                             "not a JSON object",
		`{`:                              "not a JSON object",
		`{"url":}`:                       "not a JSON object",
		"{\"url\":\"\xff\"}":             "not valid UTF-8",
		`{` + u + `} {}`:                 "something follows the JSON object",
		`{}`:                             `field "url": missing`,
		`{"url":null}`:                   `field "url": missing`,
		`{"url":7}`:                      `field "url": must be a string`,
		`{"URL":"http://a.example/"}`:    `field "URL": no such field`,
		`{` + u + `,"timeout":"1s"}`:     `field "timeout": no such field`,
		`{` + u + `,` + u + `}`:          `field "url": given twice`,
		`{` + u + `,"method":"GE T"}`:    `field "method": not a valid method`,
		`{` + u + `,"method":"A\r\nB"}`:  `field "method": not a valid method`,
		`{` + u + `,"method":"connect"}`: `CONNECT cannot be called`,
		`{` + u + `,"accept":"3xx"}`:     `field "accept": neither "2xx" nor "any"`,
		`{` + u + `,"accept":true}`:      `field "accept": must be a string`,
		`{` + u + `,"headers":{"a":"{{secret:A}}"}}`:   `a secret that is not written {{secret:name}}`,
		`{` + u + `,"headers":{"a":"{{ secret:a }}"}}`: `a secret that is not written {{secret:name}}`,
		`{` + u + `,"body":{}}`:                        `field "body": must be a string`,
		`{` + u + `,"body":"","body_base64":""}`:       "not both",
		`{` + u + `,"body_base64":"AP8"}`:              "not valid base64",
		`{` + u + `,"body_base64":"_w=="}`:             "not valid base64",

		`{` + u + `,"headers":[]}`:                     `field "headers": not a JSON object`,
		`{` + u + `,"headers":{"a":1}}`:                `field "headers": field "a": must be a string`,
		`{` + u + `,"headers":{"a":null}}`:             `field "headers": field "a": must be a string`,
		`{` + u + `,"headers":{"a b":""}}`:             "not a valid header name",
		`{` + u + `,"headers":{"":""}}`:                "not a valid header name",
		`{` + u + `,"headers":{"a\r\nb":""}}`:          "not a valid header name",
		`{` + u + `,"headers":{"a":"x\r\nHost: b"}}`:   "control character",
		`{` + u + `,"headers":{"a":"\u0000"}}`:         "control character",
		`{` + u + `,"headers":{"x-a":"1","X-A":"2"}}`:  "given twice",
		`{` + u + `,"headers":{"host":"b.example"}}`:   "belongs to the connection",
		`{` + u + `,"headers":{"Connection":"close"}}`: "belongs to the connection",
		`{` + u + `,"headers":{"content-length":"1"}}`: "belongs to the connection",
		`{` + u + `,"headers":{"proxy-auth":"x"}}`:     "belongs to the connection",
		`{` + u + `,"headers":{"TE":"trailers"}}`:      "belongs to the connection",

		`{"url":"/a"}`:                                         "must begin with http:// or https://",
		`{"url":"//a.example/"}`:                               "must begin with http:// or https://",
		`{"url":"a.example:80/"}`:                              "must begin with http:// or https://",
		`{"url":"ftp://a.example/"}`:                           "must begin with http:// or https://",
		`{"url":"file:///etc/passwd"}`:                         "must begin with http:// or https://",
		`{"url":"http:a.example"}`:                             "no host",
		`{"url":"http:///a"}`:                                  "no host",
		`{"url":"http://:80/"}`:                                "no host",
		`{"url":"http://u@a.example/"}`:                        "use the header Authorization",
		`{"url":"http://@a.example/"}`:                         "use the header Authorization",
		`{"url":"http://a.example:0/"}`:                        "not in 1 to 65535",
		`{"url":"http://a.example:65536/"}`:                    "not in 1 to 65535",
		`{"url":"http://a.example:x/"}`:                        "not a valid url",
		`{"url":"http://a.example/?a b"}`:                      "a space in its query",
		`{"url":"http://a\r\n.example/"}`:                      "not a valid url",
		`{"url":"http://a..example/"}`:                         "not a valid host",
		`{"url":"http://é.example/"}`:                          "not a valid host",
		`{"url":"http://a\".example/"}`:                        "not a valid host",
		`{"url":"http://a.example。/"}`:                         "not a valid host",
		`{"url":"http://2130706433/"}`:                         "not a valid host",
		`{"url":"http://0x7f000001/"}`:                         "not a valid host",
		`{"url":"http://0x7f.1/"}`:                             "not a valid host",
		`{"url":"http://127.1/"}`:                              "not a valid host",
		`{"url":"http://0177.0.0.1/"}`:                         "not a valid host",
		`{"url":"http://127.0.0.1./"}`:                         "not a valid host",
		`{"url":"http://127.0.0.1.0x/"}`:                       "not a valid host",
		`{"url":"http://[127.0.0.1]/"}`:                        "not a valid",
		`{"url":"http://` + strings.Repeat("a.", 130) + `b/"}`: "not a valid host",
	} {
		t.Run(payload, func(t *testing.T) {
			t.Parallel()
			h := handlers.NewTestHTTPCall(handlers.HTTPOptions{}, noNetwork, nil)
			err := h.ProcessTask(t.Context(), rawTask([]byte(payload), ""))
			if !errors.Is(err, asynq.SkipRetry) {
				t.Fatalf("%v is not permanent", err)
			}
			if early := handlers.CheckPayload(handlers.HTTPCallType, []byte(payload)); early == nil || early.Error() != err.Error() {
				t.Errorf("before it is submitted: %v", early)
			}
			if !strings.HasPrefix(err.Error(), "bad http:call payload: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("got %q, want %q in it", err, want)
			}
		})
	}
}

func TestGoodPayloadPasses(t *testing.T) {
	t.Parallel()
	for typ, payload := range map[string]string{
		handlers.HTTPCallType: `{"url":"http://10.0.0.1/","accept":"any","headers":{"a":"Bearer {{secret:a-b_1}}"}}`, // the class decides about the target
		"mail:welcome":        `7`,
	} {
		if err := handlers.CheckPayload(typ, []byte(payload)); err != nil {
			t.Errorf("%s %s: %v", typ, payload, err)
		}
	}
}

var errNoNetwork = errors.New("no network in this test")

func noNetwork(context.Context, string, string) (net.Conn, error) { return nil, errNoNetwork }

// FuzzHTTPCallPayload looks for a payload that is neither refused for good nor
// dialled, and for one whose request net/http refuses after we accepted it.
func FuzzHTTPCallPayload(f *testing.F) {
	for _, seed := range []string{
		`{"url":"https://a.example/b?c=d","method":"POST","headers":{"A":"b"},"body":"x"}`,
		`{"url":"http://[::1%25lo]:8080/","body_base64":"AP8="}`,
		`{"url":"http://a.example./%zz"}`,
		`{"url":"http://u:p@a.example"}`,
		`{"url":"http://a.example?\u2028"}`,
		`{"url":null,"url":1}`,
		`{"url":"https://a.example","headers":{"A":"{{secret:b}}"},"accept":"any"}`,
		`[`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		h := handlers.NewTestHTTPCall(handlers.HTTPOptions{}, noNetwork, nil) // a new one: no breaker is open
		err := h.ProcessTask(t.Context(), rawTask(payload, ""))
		if errors.Is(err, asynq.SkipRetry) == errors.Is(err, errNoNetwork) {
			t.Errorf("ProcessTask(%q) = %v, want either a permanent error or a dial", payload, err)
		}
		if len(err.Error()) > 2048 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}
