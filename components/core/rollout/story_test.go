package rollout_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "record what the stories show now")

// TestStories runs every testdata/*.txt: one file is one story about the planner and the Operations, written to be
// read aloud.
//
//	A title
//	Some lines on its subject, with the ids of its rules.
//
//	group web: 3 replicas of none, max_unavailable 1     the world
//
//	operator wants revision B                            an event
//	20s pass
//	expect begins UPDATE web-2                           an expectation, written by hand
//	    0:00  rollout web-2-B: RUNNING                    an outcome, as recorded
//
// Blocks are separated by empty lines. The indented lines are recorded with
// `go test -run TestStories -update`, so that a change of behaviour is a diff to be
// reviewed; an `expect` is never rewritten. After every step of every story the
// invariants of story_check_test.go are checked as well. The lines that may be
// written are the tables in story_events_test.go and story_expect_test.go.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d stories: %v", len(files), err)
	}
	made := make([]moves, len(files)) // each story has its own, because stories run at the same time
	t.Cleanup(func() {
		all := moves{}
		for _, m := range made {
			if m == nil {
				return // -run selected other stories
			}
			maps.Copy(all, m)
		}
		all.isTheDiagram(t)
	})
	for i, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			made[i] = play(t, file)
		})
	}
}

// The threat model's name for the story of a revision that never becomes healthy.
func TestOPS02_SimulationBrokenTargetStopsAtTheFirstSlotAndACorrectedSpecRollsForward(t *testing.T) {
	play(t, "testdata/corrected_spec.txt")
}

// play plays one story, compares it with its recorded text, and returns the changes of Phase.
func play(t *testing.T, file string) moves {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	told, made := tell(t, string(text))
	switch {
	case told == string(text):
	case *update:
		if err := os.WriteFile(file, []byte(told), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s goes otherwise now; look at it, and record it with -update if it is right\n%s", file, diff(string(text), told))
	}
	return made
}

// The story is played, and its text is returned.
func tell(t *testing.T, text string) (string, moves) {
	var out []string
	var s *story
	body := false
	var block []string
	end := func() {
		if len(block) == 0 {
			return
		}
		out = append(out, block...)
		if s != nil {
			out = append(out, s.recorded()...)
		}
		block = nil
	}
	for number, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case strings.TrimSpace(line) == "":
			end()
			out = append(out, "")
			body = true
		case !body || strings.HasPrefix(line, "#"):
			block = append(block, line) // title, prose and remarks
		case strings.HasPrefix(line, " "):
			continue // recorded by the last run
		default:
			block = append(block, line)
			s = perform(t, s, number+1, line)
		}
	}
	end()
	return strings.Join(out, "\n") + "\n", s.c.moves
}

// perform carries out one line. The first line makes the world.
func perform(t *testing.T, s *story, number int, line string) *story {
	where := fmt.Sprintf("line %d: %s", number, line)
	if s == nil {
		s, err := newStory(t, line)
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		return s
	}
	s.where = where
	if expected, ok := strings.CutPrefix(line, "expect "); ok {
		if err := s.expect(expected); err != nil {
			t.Errorf("%s: %v\n%s", where, err, strings.Join(s.peek(), "\n"))
		}
		return s
	}
	if err := s.happen(line); err != nil {
		t.Fatalf("%s: %v\n%s", where, err, strings.Join(s.peek(), "\n"))
	}
	return s
}

// diff shows the differences of two texts, line by line.
func diff(was, is string) string {
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	var out strings.Builder
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j < len(b) && (i >= len(a) || ahead(a[i:], b[j]) > ahead(b[j:], a[i])):
			fmt.Fprintf(&out, "+%s\n", b[j])
			j++
		default:
			fmt.Fprintf(&out, "-%s\n", a[i])
			i++
		}
	}
	return out.String()
}

// ahead returns the next position of line in lines.
func ahead(lines []string, line string) int {
	for i, l := range lines {
		if l == line {
			return i
		}
	}
	return len(lines) + 1
}
