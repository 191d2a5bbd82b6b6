package classfile

import (
	"encoding"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/spout-queue/spout/cmd/internal/strictyaml"
	"github.com/spout-queue/spout/queue"
)

func number(name string, of func(*queue.Class) *int) setting {
	return setting{
		name: name,
		read: func(c *queue.Class, node *yaml.Node) error {
			n, err := strconv.Atoi(node.Value)
			if err != nil || node.Kind != yaml.ScalarNode || node.Tag != "!!int" {
				return fmt.Errorf("%s is not a whole number", name)
			}
			*of(c) = n
			return nil
		},
		write: func(c queue.Class) string { return strconv.Itoa(*of(&c)) },
	}
}

func duration(name string, of func(*queue.Class) *time.Duration) setting {
	return setting{
		name: name,
		read: func(c *queue.Class, node *yaml.Node) error {
			s, err := strictyaml.Text(node)
			if err != nil {
				return fmt.Errorf("%s %w", name, err)
			}
			d, err := time.ParseDuration(s)
			switch {
			case err != nil:
				return fmt.Errorf("%s %q is not a duration; write it like 500ms, 30s, 10m or 24h", name, s)
			case d%time.Microsecond != 0:
				return fmt.Errorf("%s %s is not a whole number of microseconds", name, s)
			}
			*of(c) = d
			return nil
		},
		write: func(c queue.Class) string { return short(*of(&c)) },
	}
}

// short leaves out the zero units that Go writes at the end: 10m, not 10m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// word is a setting that is one of a few words. The queue knows which.
func word[T ~string](name string, of func(*queue.Class) *T) setting {
	return setting{
		name: name,
		read: func(c *queue.Class, node *yaml.Node) error {
			s, err := strictyaml.Text(node)
			if err != nil {
				return fmt.Errorf("%s %w", name, err)
			}
			*of(c) = T(s)
			return nil
		},
		write: func(c queue.Class) string { return string(*of(&c)) },
	}
}

// textField is a setting that reads and writes itself.
type textField interface {
	fmt.Stringer
	encoding.TextUnmarshaler
}

func text(name string, of func(*queue.Class) textField) setting {
	return setting{
		name: name,
		read: func(c *queue.Class, node *yaml.Node) error {
			s, err := strictyaml.Text(node)
			if err != nil {
				return fmt.Errorf("%s %w", name, err)
			}
			if err := of(c).UnmarshalText([]byte(s)); err != nil {
				return errors.New(strings.TrimPrefix(err.Error(), queue.ErrInvalid.Error()+": "))
			}
			return nil
		},
		write: func(c queue.Class) string { return of(&c).String() },
	}
}

// rateOrNone is a rate that most classes do not have.
func rateOrNone(name string, of func(*queue.Class) *queue.Rate) setting {
	rate := text(name, func(c *queue.Class) textField { return of(c) })
	written := rate.write
	rate.write = func(c queue.Class) string {
		if *of(&c) == (queue.Rate{}) {
			return "none"
		}
		return written(c)
	}
	return rate
}

func yesNo(name string, of func(*queue.Class) *bool) setting {
	return setting{
		name: name,
		read: func(c *queue.Class, node *yaml.Node) error {
			if node.Kind != yaml.ScalarNode || node.Tag != "!!bool" {
				return fmt.Errorf("%s is not true or false", name)
			}
			*of(c) = strings.EqualFold(node.Value, "true")
			return nil
		},
		write: func(c queue.Class) string { return strconv.FormatBool(*of(&c)) },
	}
}

func texts(name string, of func(*queue.Class) *[]string) setting {
	return setting{
		name: name,
		read: func(c *queue.Class, node *yaml.Node) (err error) {
			if *of(c), err = strictyaml.Texts(node); err != nil {
				return fmt.Errorf("%s %w", name, err)
			}
			return nil
		},
		write: func(c queue.Class) string { return "[" + strings.Join(*of(&c), ", ") + "]" },
	}
}

func numbers(name string, of func(*queue.Class) *[]int) setting {
	return setting{
		name: name,
		read: func(c *queue.Class, node *yaml.Node) error {
			list, err := strictyaml.Texts(node)
			if err != nil {
				return fmt.Errorf("%s %w", name, err)
			}
			for _, text := range list {
				n, err := strconv.Atoi(text)
				if err != nil {
					return fmt.Errorf("%s: %q is not a whole number", name, text)
				}
				*of(c) = append(*of(c), n)
			}
			return nil
		},
		write: func(c queue.Class) string { return strings.ReplaceAll(fmt.Sprint(*of(&c)), " ", ", ") },
	}
}
