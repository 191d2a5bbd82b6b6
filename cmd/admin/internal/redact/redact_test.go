package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spout-queue/spout/cmd/admin/internal/redact"
)

func TestJSON(t *testing.T) {
	t.Parallel()
	form := base64.StdEncoding.EncodeToString([]byte("user=u&password=p"))
	plain := base64.StdEncoding.EncodeToString([]byte("hello"))
	for _, c := range []struct {
		name, in, want string
		found          int
	}{
		{"nothing", `{"url":"https://a.b/c?page=2","n":1.50,"b":[true,null,"x"]}`, `{"url":"https://a.b/c?page=2","n":1.50,"b":[true,null,"x"]}`, 0},
		{"order and repeated names", `{"z":1,"a":2,"z":3}`, `{"z":1,"a":2,"z":3}`, 0},
		{
			"headers", `{"headers":{"Authorization":"Bearer abc","COOKIE":["a=b","c=d"],"X-Api-Key":"k","Accept":"*/*"}}`,
			`{"headers":{"Authorization":"[redacted]","COOKIE":["[redacted]","[redacted]"],"X-Api-Key":"[redacted]","Accept":"*/*"}}`, 4,
		},
		{
			"named secrets stay", `{"Authorization":"Bearer {{secret:github}}","X-Api-Key":"{{secret:k}}"}`,
			`{"Authorization":"Bearer {{secret:github}}","X-Api-Key":"{{secret:k}}"}`, 0,
		},
		{"a named secret does not hide another", `{"Authorization":"{{secret:k}} hunter2"}`, `{"Authorization":"[redacted]"}`, 1},
		{"userinfo", `"see https://user:pass@a.b/c and redis://:pw@h:1/0"`, `"see https://[redacted]@a.b/c and redis://[redacted]@h:1/0"`, 2},
		{
			"query", `{"url":"https://a.b/c?page=2&access_token=abc&X-Amz-Signature=ff#top"}`,
			`{"url":"https://a.b/c?page=2&access_token=[redacted]&X-Amz-Signature=[redacted]#top"}`, 2,
		},
		{
			"fields of any shape", `{"password":{"a":["b",3]},"client_secret":7,"tokens_used":5,"secret":null,"token":""}`,
			`{"password":{"a":["[redacted]","[redacted]"]},"client_secret":"[redacted]","tokens_used":5,"secret":null,"token":""}`, 3,
		},
		{"JSON in a body", `{"body":"{\"password\":\"p\",\"user\":\"u\"}"}`, `{"body":"{\"password\":\"[redacted]\",\"user\":\"u\"}"}`, 1},
		{"a form in a body", `{"body":"user=u&password=p&x=1"}`, `{"body":"user=u&password=[redacted]&x=1"}`, 1},
		{"an encoded body", `{"body_base64":"` + form + `"}`, `{"body_base64":"[redacted]"}`, 1},
		{"a harmless encoded body", `{"body_base64":"` + plain + `"}`, `{"body_base64":"` + plain + `"}`, 0},
		{"text that is no JSON", `curl -H "Authorization: Basic dXNlcjpwYXNz"`, `"curl -H \"Authorization: [redacted]\""`, 1},
	} {
		got, found := redact.JSON([]byte(c.in))
		if string(got) != c.want || found != c.found {
			t.Errorf("%s: %s, %d found; want %s, %d", c.name, got, found, c.want, c.found)
		}
		if !json.Valid(got) {
			t.Errorf("%s: %s is no JSON", c.name, got)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`Get "https://u:p@a.b/?token=abc": EOF`:  `Get "https://[redacted]@a.b/?token=[redacted]": EOF`,
		"sent Bearer abcdefghij twice":           "sent Bearer [redacted] twice",
		"answered 500, body: the token is wrong": "answered 500, body: the token is wrong",
		"Set-Cookie: session=1; Path=/":          "Set-Cookie: [redacted]",
		"Authorization: Bearer {{secret:x}}":     "Authorization: Bearer {{secret:x}}",
	} {
		if got, _ := redact.Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// What is taken out once stays as it is: pages may redact what was redacted.
func FuzzJSON(f *testing.F) {
	f.Add(`{"Authorization":"x","a":["https://u:p@h/?key=1"]}`)
	f.Add(strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000))
	f.Fuzz(func(t *testing.T, in string) {
		got, _ := redact.JSON([]byte(in))
		if !json.Valid(got) {
			t.Fatalf("%q became %q, which is no JSON", in, got)
		}
		if again, _ := redact.JSON(got); string(again) != string(got) {
			t.Errorf("%q became %q", got, again)
		}
	})
}
