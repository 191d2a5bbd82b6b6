package main

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/admin/internal/profiles"
	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/queue"
)

// profileState is a profile as JSON has it.
type profileState struct {
	Name    string      `json:"name"`
	About   string      `json:"about"`
	Sources []string    `json:"sources"`
	Date    string      `json:"date"`
	Class   queue.Class `json:"class"`
}

func stateOfProfile(p profiles.Profile) profileState {
	return profileState{Name: p.Name, About: p.About, Sources: p.Sources, Date: p.Date, Class: p.Class}
}

type profileColumn = answer.Column[profileState]

func profileList(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "ls", Usage: "list class files for well-known APIs",
		Description: "Each has the limits of one API as its documentation told them on a date. Apply one with\n" +
			"class apply --profile NAME; look at what it says first, with profile get NAME.",
		Run: func(_ context.Context, s *command.Session) error {
			list, err := profiles.List()
			if err != nil {
				return err
			}
			states := make([]profileState, len(list))
			for i, p := range list {
				states[i] = stateOfProfile(p)
			}
			return answer.List(s.Printer, states,
				profileColumn{Name: "profile", Cell: func(p profileState) any { return p.Name }},
				profileColumn{Name: "rate", Cell: func(p profileState) any { return p.Class.Rate }},
				profileColumn{Name: "date", Cell: func(p profileState) any { day, _, _ := strings.Cut(p.Date, " "); return day }},
				profileColumn{Name: "source", Cell: func(p profileState) any { return p.Sources[0] }})
		},
	})
}

func profileGet(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "get", Usage: "show the class file of a profile",
		Description: "It tells what to take as the key, how the API refuses, and where all that is from.",
		Args:        "NAME", Least: 1, Most: 1,
		Run: func(_ context.Context, s *command.Session) error {
			p, err := profile(s.Flags.Args().First())
			if err != nil {
				return err
			}
			return errors.Join(s.Object(stateOfProfile(p)), s.Linef("%s", strings.TrimSpace(p.Text)))
		},
	})
}

func profile(name string) (profiles.Profile, error) {
	p, err := profiles.Get(name)
	if err != nil {
		return p, &exit.Error{Status: exit.Data, Err: err}
	}
	return p, nil
}

// profileFlags are those of class apply.
func profileFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "profile", Usage: "apply the class of a well-known API, by `NAME`, in place of a file; see admin profile ls"},
		&cli.StringFlag{Name: "name", Usage: "`CLASS` to make of the profile; by default that of its own name"},
		&cli.StringSliceFlag{Name: "set", Usage: "change a setting of the profile, as in rate=20/1s or http.hosts=[a.example]: `SETTING=VALUE`, repeatable"},
	}
}

// classesToApply are those of --file, or the one of --profile.
func classesToApply(s *command.Session) ([]queue.Class, error) {
	name := s.Flags.String("profile")
	switch {
	case name != "" && s.Flags.String("file") != "":
		return nil, exit.Usagef("--file and --profile: give one of them, not both")
	case name != "":
		class, err := classOfProfile(s, name)
		return []queue.Class{class}, err
	case s.Flags.String("name") != "" || len(s.Flags.StringSlice("set")) > 0:
		return nil, exit.Usagef("--name and --set are for --profile; what is in a file is changed there")
	}
	file, data, err := readFile(s)
	if err != nil {
		return nil, err
	}
	classes, err := classfile.Parse(file, data)
	if err != nil {
		return nil, &exit.Error{Status: exit.Data, Err: err}
	}
	return classes, nil
}

func classOfProfile(s *command.Session, name string) (queue.Class, error) {
	p, err := profile(name)
	if err != nil {
		return queue.Class{}, err
	}
	class := p.Class
	if as := s.Flags.String("name"); as != "" {
		class.Name = as
	}
	for _, assignment := range assignments(s.Flags.StringSlice("set")) {
		setting, value, ok := strings.Cut(assignment, "=")
		if !ok {
			return class, s.Wrong("set", errors.New(assignment+" is not SETTING=VALUE"))
		}
		if err := classfile.Set(&class, setting, value); err != nil {
			return class, s.Wrong("set", err)
		}
	}
	if err := class.Validate(); err != nil {
		return class, &exit.Error{Status: exit.Data, Err: err}
	}
	return class, nil
}

var beginsAssignment = regexp.MustCompile(`^[a-z_.]+=`)

// assignments puts together what the flag has cut at the commas of a list.
func assignments(parts []string) []string {
	var list []string
	for _, part := range parts {
		if len(list) > 0 && !beginsAssignment.MatchString(part) {
			list[len(list)-1] += "," + part
			continue
		}
		list = append(list, part)
	}
	return list
}
