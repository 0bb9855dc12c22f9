package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/operation"
)

// screen shows views as they come: redrawn in place on a terminal, as lines of changes elsewhere.
// Its methods are for one goroutine.
type screen struct {
	app  *App
	live bool
	// stream prints views as JSON lines with -o json; else there is silence.
	stream bool
	last   *client.View
	// drawn is how many lines the picture on the terminal has.
	drawn int
}

func (a *App) newScreen() *screen {
	_, tty := a.terminal()
	return &screen{app: a, live: tty && a.output != "json"}
}

// see shows a view.
func (s *screen) see(v client.View) {
	switch {
	case s.app.output == "json" && s.stream:
		// One object a line: a reader of a stream takes them as they come.
		var one any = v
		if s.app.simulated {
			if marked, err := markSimulated(v); err == nil {
				one = marked
			}
		}
		if text, err := json.Marshal(one); err == nil {
			fmt.Fprintln(s.app.Out, string(text))
		}
	case s.app.output == "json":
	case s.live:
		s.draw(v, "")
	default:
		if s.last == nil && s.app.simulated {
			s.line(render.SimulatedBanner)
		}
		for _, line := range format.Changes(s.last, v) {
			s.line(line)
		}
	}
	s.last = &v
}

// ending is the end of a rollout that did not fail: its word of -o json, and its text. A rollout that left slots behind
// names them.
func (s *screen) ending(revision string) (word, text string) {
	if s.last != nil && s.last.Plan.Rollout != nil && s.last.Plan.Rollout.State == operation.PartitionReached {
		return "complete", fmt.Sprintf("the rollout ended as %s: %s", operation.PartitionReached, s.last.Plan.Rollout.Reason)
	}
	if s.last != nil && s.last.Status.RolloutState == string(operation.Running) {
		return "updates_due", fmt.Sprintf("every slot is available; an operator's update is due for %d of %d slots: `cadre instance update SLOT`", len(client.UpdatesDue(s.last.Plan)), s.last.Status.Replicas)
	}
	return "complete", fmt.Sprintf("every slot in scope runs revision %s and is available", revision)
}

// lost reports that no coordinator answers at the moment.
func (s *screen) lost(err error) {
	first, _, _ := strings.Cut(err.Error(), "\n")
	text := "no coordinator answers, still trying: " + first
	if s.live && s.last != nil {
		s.draw(*s.last, text)
		return
	}
	if s.app.output != "json" {
		s.line(text)
	}
}

// tick redraws so that durations advance.
func (s *screen) tick() {
	if s.live && s.last != nil {
		s.draw(*s.last, "")
	}
}

func (s *screen) line(text string) {
	fmt.Fprintf(s.app.Out, "%s  %s\n", s.app.now().Format("15:04:05"), text)
}

// draw replaces the picture. It is cut to the terminal, since a line that wraps
// or scrolls could not be taken back.
func (s *screen) draw(v client.View, note string) {
	style := s.app.style()
	text := render.Banner(style, s.app.simulated) + render.Status(style, v, nil, s.app.now())
	if note != "" {
		text += style.Line(note, render.Warn)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	if fd, ok := s.app.terminal(); ok {
		if _, height, err := term.GetSize(fd); err == nil && height > 2 && len(lines) >= height {
			lines = lines[:height-1]
		}
	}
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", s.drawn)
	}
	b.WriteString("\x1b[J")
	b.WriteString(strings.TrimSuffix(strings.Join(lines, ""), "\n") + "\n")
	s.drawn = len(lines)
	_, _ = io.WriteString(s.app.Out, b.String())
}

// end leaves the last picture where it is.
func (s *screen) end() { s.drawn = 0 }
