package strictjson_test

import (
	"strings"
	"testing"

	"github.com/spout-queue/spout/cmd/internal/strictjson"
)

type thing struct {
	Name string `json:"name"`
	N    int    `json:"n,omitempty"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	var got thing
	if err := strictjson.Decode([]byte(` {"name":"a","n":2} `), &got); err != nil || got != (thing{"a", 2}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, whole := range []string{`\ud83d\ude00`, `\ufffd`, "\uFFFD", `\\ud800`, `\"\u0041\\`, ``} {
		if err := strictjson.Decode([]byte(`{"name":"`+whole+`"}`), &got); err != nil {
			t.Errorf("%s: %v", whole, err)
		}
	}
	for _, test := range []struct{ body, want string }{
		{``, "ends too early"},
		{`{`, "ends too early"},
		{`[]`, "not a JSON object"},
		{`{"name":x}`, "not JSON"},
		{`{"Name":"a"}`, `unknown field "Name"; known are name, n`},
		{`{"name":"a","name":"b"}`, "there twice"},
		{`{"name":null}`, "name is null"},
		{`{"name":1}`, "name is a number"},
		{`{"n":1.5}`, "n is a number 1.5"},
		{`{"n":1}{}`, "behind the object"},
		{`{"n":1} x`, "behind the object"},
		{"{\"name\":\"\xff\"}", "UTF-8"},
		{`{"name":"\ud800"}`, "half of a surrogate pair"},
		{`{"name":"\udc00\ud800"}`, "half of a surrogate pair"},
		{`{"name":"\ud800x"}`, "half of a surrogate pair"},
		{`{"name":"\\ufffd\ud800"}`, "half of a surrogate pair"},
		{`{"name":"\ud800\\udc00"}`, "half of a surrogate pair"},
		{`{"name":` + strings.Repeat("[", 20_000), "not JSON"},
	} {
		if err := strictjson.Decode([]byte(test.body), &got); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40s: got %v, want %q", test.body, err, test.want)
		}
	}
}
