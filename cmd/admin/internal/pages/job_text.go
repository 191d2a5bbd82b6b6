package pages

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spout-queue/spout/cmd/admin/internal/redact"
	"github.com/spout-queue/spout/queue"
)

// bodyMost is how much of a payload or a result a page shows, in bytes.
const bodyMost = 64 << 10

// copyMost is the longest payload that a shell takes as one argument, with room to spare.
const copyMost = 100 << 10

// body is a payload or a result as a page shows it: without secrets, and not all of it when it is long.
type body struct {
	Text  string
	Size  int // of all of it
	Cut   bool
	Found int // secrets

	clean json.RawMessage // all of it without secrets, when it is JSON
}

// bodyOf shows JSON indented, other text as it is, and the beginning of anything else in hex.
func bodyOf(raw []byte) body {
	b := body{Size: len(raw)}
	switch {
	case json.Valid(raw):
		b.clean, b.Found = redact.JSON(raw)
		b.Text, b.Cut = indented(b.clean, bodyMost)
	case utf8.Valid(raw):
		b.Text, b.Found = redact.Text(string(raw))
		b.Text, b.Cut = clipped(b.Text, bodyMost)
	default:
		b.Cut = len(raw) > 512
		b.Text = hex.Dump(raw[:min(512, len(raw))])
	}
	return b
}

// clipped cuts a text at a character.
func clipped(s string, most int) (string, bool) {
	if len(s) <= most {
		return s, false
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most], true
}

// indentMost keeps deep values from becoming mostly blanks.
const indentMost = 24

// indented spreads compact JSON over lines until there is enough of it.
func indented(compact []byte, most int) (text string, cut bool) {
	var b bytes.Buffer
	depth, inString := 0, false
	line := func() { b.WriteString("\n" + strings.Repeat("  ", min(depth, indentMost))) }
	for i := 0; i < len(compact) && b.Len() <= most; i++ {
		c := compact[i]
		if inString {
			b.WriteByte(c)
			if c == '\\' && i+1 < len(compact) {
				i++
				b.WriteByte(compact[i])
			}
			inString = c != '"'
			continue
		}
		closes := i+1 < len(compact) && (compact[i+1] == '}' || compact[i+1] == ']')
		switch c {
		case '{', '[':
			b.WriteByte(c)
			if depth++; !closes {
				line()
			}
		case '}', ']':
			if depth--; i > 0 && compact[i-1] != '{' && compact[i-1] != '[' {
				line()
			}
			b.WriteByte(c)
		case ',':
			b.WriteByte(c)
			line()
		case ':':
			b.WriteString(": ")
		default:
			b.WriteByte(c)
			inString = c == '"'
		}
	}
	return clipped(b.String(), most)
}

// copies are commands that submit the same job once more, as a new one.
type copies struct {
	Producer, Curl string
	Found          int  // secrets that are not in them
	Long           bool // the payload is too long for a command line: they read it from a file
	Fetch          string
}

// copiesOf writes the commands. api is the address of the HTTP API.
func copiesOf(j queue.JobState, shown body, api string) copies {
	payload := shown.clean
	c := copies{Found: shown.Found, Long: len(payload) > copyMost}
	words := []string{"producer", "enqueue"}
	for _, flag := range []string{"--class=" + j.Class, "--key=" + j.Key, "--type=" + j.Type} {
		words = append(words, shellWord(flag))
	}
	curl := `curl -H "Authorization: Bearer $SPOUT_TOKEN" -H 'Content-Type: application/json' `
	if c.Long {
		words = append(words, "--payload-file=payload.json")
		c.Fetch = "admin job get -o json " + shellWord(j.Ref) + " | jq -c .payload > payload.json"
		shape := fmt.Sprintf("{class:%s,key:%s,type:%s,payload:.}", jsonText(j.Class), jsonText(j.Key), jsonText(j.Type))
		c.Curl = "jq -c " + shellWord(shape) + " payload.json | " + curl + "--data-binary @- " + shellWord(api)
	} else {
		words = append(words, shellWord("--payload="+string(payload)))
		line := fmt.Sprintf(`{"class":%s,"key":%s,"type":%s,"payload":%s}`, jsonText(j.Class), jsonText(j.Key), jsonText(j.Type), payload)
		c.Curl = curl + "--data-raw " + shellWord(line) + " " + shellWord(api)
	}
	c.Producer = strings.Join(words, " ")
	return c
}

func jsonText(s string) string {
	b, _ := json.Marshal(s) //nolint:errchkjson // a text
	return string(b)
}

// shellWord quotes a text so that a POSIX shell takes it as one word, whatever is in it.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=./:", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
