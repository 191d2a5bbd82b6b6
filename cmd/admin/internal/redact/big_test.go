package redact_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/redact"
)

// The author of a payload may want to keep the dashboard busy: the time grows with the size, and no more than that.
func TestBigIsQuick(t *testing.T) {
	t.Parallel()
	const size = 128 << 10
	for name, in := range map[string]string{
		"deep":     strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999),
		"too deep": strings.Repeat("[", size/2) + strings.Repeat("]", size/2),
		"schemes":  `"` + strings.Repeat("a://", size/4) + `"`,
		"pairs":    `"` + strings.Repeat("key=a&", size/6) + `"`,
		"quotes":   `"` + strings.Repeat(`\"`, size/2) + `"`,
		"numbers":  "[" + strings.Repeat("1,", size/2) + "1]",
		"strings":  "[" + strings.Repeat(`"[]",`, size/5) + "1]",
	} {
		began := time.Now()
		redact.JSON([]byte(in))
		if took := time.Since(began); took > 20*time.Second { // some hundred times what it needs
			t.Errorf("%s took %v", name, took)
		} else {
			t.Log(name, took)
		}
	}
}
