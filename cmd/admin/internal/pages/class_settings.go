package pages

import (
	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/queue"
)

// settingsView is all settings of a class: its own, and those that are what they usually are.
type settingsView struct {
	Own, Usual []classfile.Setting
	YAML       string
}

func settingsOf(class queue.Class) settingsView {
	view := settingsView{YAML: classfile.Write(class)}
	base := classfile.Settings(queue.NewClass(class.Name, class.Capacity, class.Rate))
	for i, s := range classfile.Settings(class) {
		if s == base[i] && s.Name != "capacity" && s.Name != "rate" {
			view.Usual = append(view.Usual, s)
		} else {
			view.Own = append(view.Own, s)
		}
	}
	return view
}

// Settings of the class.
func (c *classPage) Settings() settingsView { return settingsOf(c.Class) }
