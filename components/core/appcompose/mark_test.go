package appcompose_test

import (
	"strings"
	"testing"

	"cadre.dev/core/appcompose"
)

const marked = "services:\n  cadre:\n    command: [--revision-mark=" + appcompose.MarkPlace + "]\n    image: a\n  web:\n    command: [exec, --revision-mark=" + appcompose.MarkPlace + ", --, web]\n"

func TestATT36_AMarkIsThatOfOneText(t *testing.T) {
	mark := appcompose.Mark(marked)
	text := appcompose.Marked(marked)
	if strings.Contains(text, appcompose.MarkPlace) || strings.Count(text, mark) != 2 || len(mark) != 64 {
		t.Fatalf("mark %q in\n%s", mark, text)
	}
	raw, err := appcompose.Render("demo-web", marked, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := appcompose.Want{Name: "demo-web", Compose: marked}
	if got, problems := appcompose.Judge(raw, appcompose.Rules{}); got.Compose != text || len(problems) > 0 || len(want.Judge(raw)) > 0 {
		t.Errorf("rendered %q, %v, %v", got.Compose, problems, want.Judge(raw))
	}
	next := strings.Replace(marked, "image: a", "image: b", 1)
	unmarked := strings.ReplaceAll(marked, ", --revision-mark="+appcompose.MarkPlace, "")
	unmarked = strings.ReplaceAll(unmarked, "--revision-mark="+appcompose.MarkPlace, "")
	for name, c := range map[string]struct {
		measured, mark string
		good           bool
	}{
		"its own":                            {text, mark, true},
		"none, of a text with none":          {unmarked, "", true},
		"of the text before":                 {appcompose.Marked(next), mark, false},
		"of the text after":                  {text, appcompose.Mark(next), false},
		"none, of a text with one":           {text, "", false},
		"one, of a text with none":           {unmarked, mark, false},
		"the place itself":                   {marked, appcompose.MarkPlace, false},
		"part of it":                         {text, mark[:32], false},
		"one that an operator wrote by hand": {strings.ReplaceAll(next, appcompose.MarkPlace, mark), mark, false},
		"another beside its own":             {text + "# --revision-mark=" + appcompose.Mark(next) + "\n", mark, false},
	} {
		if err := appcompose.CheckMark(c.measured, c.mark); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
