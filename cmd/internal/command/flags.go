package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/queue"
)

// commonFlags are those of every command.
func commonFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "redis", Value: "redis://127.0.0.1:6379", Usage: "`ADDRESS` of Redis"},
		&cli.StringFlag{Name: "prefix", Value: queue.DefaultPrefix, Usage: "`NAME` that all keys in Redis begin with"},
		&cli.IntFlag{
			Name: "shards", DefaultText: "what Redis has; at first use 4",
			Usage: "`NUMBER` of slices of the key space; fixed at first use",
		},
		&cli.StringFlag{Name: "config", Usage: "YAML `FILE` of options"},
		&cli.StringFlag{Name: "log-level", Value: "info", Usage: "what to log, from `LEVEL` on: debug, info, warn or error"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "`FORMAT` of answers: table or json (one object per line)"},
	}
}

// document shows the environment variable in the flag's help, and allows the flag once. The library does not read the
// variable itself, since it would do so before it knows which file the configuration is in.
func document(f cli.Flag) {
	shown := cli.NewValueSourceChain(variable(f.Names()[0]))
	switch f := f.(type) {
	case *cli.StringFlag:
		f.Sources, f.OnlyOnce = shown, true
	case *cli.IntFlag:
		f.Sources, f.OnlyOnce = shown, true
	case *cli.Int64Flag:
		f.Sources, f.OnlyOnce = shown, true
	case *cli.FloatFlag:
		f.Sources, f.OnlyOnce = shown, true
	case *cli.BoolFlag:
		f.Sources, f.OnlyOnce = shown, true
	case *cli.DurationFlag:
		f.Sources, f.OnlyOnce = shown, true
	case *cli.StringSliceFlag:
		f.Sources = shown
	}
}

// variable is the environment variable of a flag, by the flag's name.
type variable string

func (v variable) Key() string {
	return "SPOUT_" + strings.ToUpper(strings.ReplaceAll(string(v), "-", "_"))
}

// IsFromEnv makes help show the variable.
func (v variable) IsFromEnv() bool { return true }

// Lookup finds nothing; layers does.
func (v variable) Lookup() (string, bool) { return "", false }

func (v variable) String() string   { return v.Key() }
func (v variable) GoString() string { return v.Key() }

// layers gives the flags that the command line does not set their values from the environment and from the file. It tells
// where each value comes from.
func layers(cmd *cli.Command, getenv func(string) string) (origins, error) {
	from := origins{}
	flags := lineage(cmd)
	for _, f := range flags {
		if f.IsSet() {
			from[f.Names()[0]] = "option --" + f.Names()[0]
		}
	}
	for _, f := range flags {
		v := variable(f.Names()[0])
		if value := getenv(v.Key()); value != "" && !f.IsSet() {
			from[string(v)] = "environment variable " + v.Key()
			if err := f.Set(string(v), value); err != nil {
				return nil, exit.Configf("%s: %w", from[string(v)], err)
			}
		}
	}
	file := cmd.String("config")
	if file == "" {
		return from, nil
	}
	return from, readConfig(file, known(cmd.Root()), func(name, value, origin string) error {
		i := slices.IndexFunc(flags, func(f cli.Flag) bool { return f.Names()[0] == name })
		if i < 0 || flags[i].IsSet() { // another command's, or overruled
			return nil
		}
		from[name] = origin
		return flags[i].Set(name, value)
	})
}

// lineage lists the flags of a command and of those above it, without help and version.
func lineage(cmd *cli.Command) []cli.Flag {
	var flags []cli.Flag
	for _, c := range cmd.Lineage() {
		for _, f := range c.Flags {
			if name := f.Names()[0]; name != "help" && name != "version" {
				flags = append(flags, f)
			}
		}
	}
	return flags
}

// known lists all that a configuration file may have: the flags of all commands of the program, so that one file serves
// them all.
func known(root *cli.Command) []string {
	var names []string
	for _, f := range lineage(root) {
		if name := f.Names()[0]; name != "config" {
			names = append(names, name)
		}
	}
	for _, sub := range root.Commands {
		names = append(names, knownBelow(sub)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func knownBelow(cmd *cli.Command) []string {
	var names []string
	for _, f := range cmd.Flags {
		if name := f.Names()[0]; name != "help" {
			names = append(names, name)
		}
	}
	for _, sub := range cmd.Commands {
		names = append(names, knownBelow(sub)...)
	}
	return names
}

// origins tell where the value of a flag comes from.
type origins map[string]string

// wrong says that a flag's value is wrong, as a matter of the command line or of the configuration.
func (o origins) wrong(name string, err error) error {
	from, ok := o[name]
	if !ok {
		from = "option --" + name
	}
	err = fmt.Errorf("%s: %w", from, err)
	if strings.HasPrefix(from, "option") {
		return &exit.Error{Status: exit.Usage, Err: err}
	}
	return &exit.Error{Status: exit.Config, Err: err}
}
