package diff

import (
	"fmt"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	type named map[string]any
	before := named{"a": 1, "gone": true, "same": "x", "text": "1\n2\n3\n4\n5\n6\n7\n8\n", "list": []any{named{"name": "x", "v": 1}, named{"name": "y", "v": 2}}}
	after := named{"a": 2, "new": []string{"q"}, "same": "x", "text": "1\n2\n3\nfour\n5\n6\n8\n", "list": []any{named{"name": "w", "v": 0}, named{"name": "x", "v": 1}, named{"name": "y", "v": 3}}}
	got, err := Compare(before, after)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	for _, c := range got {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", c.Kind, c.Path, c.Old, c.New, strings.Join(c.Lines, "|"))))
	}
	want := []string{
		`~ a 1 2`, `- gone true`, `+ list["w"].name  w`, `+ list["w"].v  0`, `~ list["y"].v 2 3`, `+ new[0]  q`,
		`~ text    3|-4|+four| 5| 6|-7| 8`,
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if same, err := Compare(before, before); err != nil || len(same) != 0 {
		t.Errorf("a value differs from itself: %v, %v", same, err)
	}
}
