// Package profiles has class files for well-known APIs: their limits, as their own documentation tells them, in the shape
// of a class. Each file names its source and the date of what it says.
package profiles

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/queue"
)

//go:embed files/*.yaml
var files embed.FS

// Profile is a class for the calls to one API.
type Profile struct {
	// Name of the profile and of its class.
	Name string
	// About is what it is for, in one line.
	About string
	// Sources are addresses of the documentation that it was made from.
	Sources []string
	// Date of the documentation, and how it is known.
	Date string
	// Class as the file has it.
	Class queue.Class
	// Text of the file, which is a class file. Its comments tell what to take as the key, and how the API refuses.
	Text string
}

// List has all profiles, by name.
func List() ([]Profile, error) {
	entries, err := files.ReadDir("files")
	if err != nil {
		return nil, err
	}
	list := make([]Profile, len(entries))
	for i, entry := range entries {
		if list[i], err = read(strings.TrimSuffix(entry.Name(), ".yaml")); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Get returns one profile; the error for a name that is none tells those that are.
func Get(name string) (Profile, error) {
	list, err := List()
	if err != nil {
		return Profile{}, err
	}
	i := slices.IndexFunc(list, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		names := make([]string, len(list))
		for i, p := range list {
			names[i] = p.Name
		}
		return Profile{}, fmt.Errorf("there is no profile %q; there are %s", name, strings.Join(names, ", "))
	}
	return list[i], nil
}

// read takes a file apart: comments of the form "word: text" before the classes, and one class named like the file.
func read(name string) (Profile, error) {
	data, err := files.ReadFile("files/" + name + ".yaml")
	if err != nil {
		return Profile{}, err
	}
	classes, err := classfile.Parse("profile "+name, data)
	if err != nil {
		return Profile{}, err
	}
	if len(classes) != 1 || classes[0].Name != name {
		return Profile{}, fmt.Errorf("profile %s has not one class, of its own name", name)
	}
	p := Profile{Name: name, Class: classes[0], Text: string(data)}
	for line := range strings.Lines(p.Text) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "# ")
		word, text, _ := strings.Cut(comment, ": ")
		switch {
		case !ok:
		case p.About == "":
			p.About = comment
		case word == "source":
			p.Sources = append(p.Sources, text)
		case word == "date":
			p.Date = text
		}
	}
	return p, nil
}
