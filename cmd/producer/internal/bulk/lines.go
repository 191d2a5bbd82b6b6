package bulk

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/spout-queue/spout/cmd/internal/jobline"
	"github.com/spout-queue/spout/queue"
)

const (
	// lineMost is the longest line that is read: the largest payload, with room for blanks and the other fields.
	lineMost = 2 << 20
	// chunkLines and chunkBytes bound what is read ahead.
	chunkLines = 100
	chunkBytes = 1 << 20
)

// line is one line of the input: a job, or why it is none.
type line struct {
	number int
	size   int // bytes of the input
	job    queue.Job
	bad    error
}

// chunk is some lines, or how the input ended: io.EOF or what went wrong.
type chunk struct {
	lines []line
	end   error
}

// scan reads the input ahead of the submissions and closes the channel behind it. A Read cannot be interrupted, so after
// ctx has ended it may stay in one, as with a terminal where nobody types; it does nothing else then.
func scan(ctx context.Context, input io.Reader, to chan<- chunk) {
	defer close(to)
	r := bufio.NewReaderSize(input, 64<<10)
	number := 0
	for {
		c := readChunk(r, &number)
		select {
		case to <- c:
		case <-ctx.Done():
			return
		}
		if c.end != nil {
			return
		}
	}
}

// readChunk returns what can be read without waiting for the input, but at least one line, so that jobs do not wait for
// a slow writer at the other end of a pipe.
func readChunk(r *bufio.Reader, number *int) chunk {
	var c chunk
	size := 0
	for len(c.lines) < chunkLines && size < chunkBytes {
		text, length, err := readLine(r)
		size += length
		if length > 0 {
			*number++
			if l := parseLine(text, length); l != nil {
				l.number = *number
				c.lines = append(c.lines, *l)
			}
		}
		if err != nil {
			c.end = err
			return c
		}
		if r.Buffered() == 0 && len(c.lines) > 0 {
			return c
		}
	}
	return c
}

// readLine reads up to the end of a line and returns its text, nil when it is too long, and how many bytes were read.
func readLine(r *bufio.Reader) (text []byte, length int, err error) {
	for {
		part, err := r.ReadSlice('\n')
		length += len(part)
		if length <= lineMost {
			text = append(text, part...)
		} else {
			text = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, length, err
		}
	}
}

// parseLine reads the job of a line. A blank line is none, and no mistake. A job without an id gets one here, before it is
// first sent, so that it can be sent again.
func parseLine(text []byte, length int) *line {
	l := &line{size: length}
	if length > lineMost {
		l.bad = fmt.Errorf("%w: the line has %d bytes; %d are read", queue.ErrTooLarge, length, lineMost)
		return l
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	if l.job, l.bad = jobline.Parse(text); l.bad == nil && l.job.ID == "" {
		l.job.ID = rand.Text()
	}
	return l
}
