package classfile

import (
	"strings"

	"github.com/spout-queue/spout/queue"
)

// Problem is something that is wrong with a class.
type Problem struct {
	// Settings that it is about, the first one first; none when it is about the class as a whole.
	Settings []string
	Text     string
}

// Problems lists what is out of its range in a class, apart from its name.
func Problems(class queue.Class) []Problem {
	class.Name = "x" // that is checked on its own
	err := class.Validate()
	if err == nil {
		return nil
	}
	var list []Problem
	for _, text := range problemsIn(strings.TrimPrefix(err.Error(), queue.ErrInvalid.Error()+`: class "x": `)) {
		list = append(list, Problem{mentioned(text), text})
	}
	return list
}
