package dashboard

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
)

//go:embed assets
var assets embed.FS

// drawing turns models into HTML. Live fragments leave the text of ages to the script: a fragment then changes only
// when its content does.
type drawing struct {
	whole, live *template.Template
}

func newDrawing(now func() time.Time) (drawing, error) {
	whole, err := parse(func(at time.Time) string { return format.Ago(now().Sub(at)) }, func(at time.Time) string { return format.Ago(at.Sub(now())) })
	if err != nil {
		return drawing{}, err
	}
	empty := func(time.Time) string { return "" }
	live, err := parse(empty, empty)
	return drawing{whole: whole, live: live}, err
}

func parse(age, left func(time.Time) string) (*template.Template, error) {
	// The script counts in the attribute's milliseconds.
	timer := func(attribute string, at time.Time, text string) template.HTML {
		if at.IsZero() {
			return "–"
		}
		return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s" %s="%d">%s</time>`, //nolint:gosec // numbers and times only
			at.UTC().Format(time.RFC3339), clock(at), attribute, at.UnixMilli(), text))
	}
	return template.New("").Funcs(template.FuncMap{
		"age":   func(at time.Time) template.HTML { return timer("data-since", at, age(at)) },
		"left":  func(at time.Time) template.HTML { return timer("data-until", at, left(at)) },
		"clock": clock,
		"dash":  orDash,
		"code":  codeSpans,
		"lower": strings.ToLower,
		"count": func(n int, one, many string) string {
			if n == 1 {
				return "1 " + one
			}
			return fmt.Sprintf("%d %s", n, many)
		},
	}).ParseFS(assets, "assets/*.html")
}

// clock is a time for people, in the zone of this machine.
func clock(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

// span is a part of a text; Code is a command.
type span struct {
	Text string
	Code bool
}

// codeSpans splits a text at its backquotes.
func codeSpans(text string) []span {
	var out []span
	for n, part := range strings.Split(text, "`") {
		if part != "" {
			out = append(out, span{part, n%2 == 1})
		}
	}
	return out
}

// drawn is a fragment as HTML.
type drawn struct {
	ID   string
	HTML template.HTML
}

// fragments draws the fragments of a page, or the reason why there are none.
func fragments(t *template.Template, p page, got []snapshot, now time.Time) ([]drawn, error) {
	list := []fragment{{"waiting", nil}}
	switch first := got[0]; {
	case first.value != nil:
		list = p.build(got, now)
		for _, s := range got[1:] {
			if s.err != nil {
				list = slices.Insert(list, 1, fragment{"partial", s.err.Error()})
				break
			}
		}
	case first.err != nil:
		list = []fragment{{"error", errorModelOf(first.err)}}
	}
	out := make([]drawn, 0, len(list))
	for _, f := range list {
		var b bytes.Buffer
		if err := t.ExecuteTemplate(&b, f.ID, f.Data); err != nil {
			return nil, fmt.Errorf("draw %s: %w", f.ID, err)
		}
		out = append(out, drawn{f.ID, template.HTML(b.String())}) //nolint:gosec // the template escaped it
	}
	return out, nil
}

// errorModel is an error of the API in its own words.
type errorModel struct{ Kind, Text string }

func errorModelOf(err error) errorModel {
	return errorModel{Kind: string(client.KindOf(err)), Text: err.Error()}
}

// connection is the state of the way to the coordinators. Lost is empty while one answers.
type connection struct {
	Lost  string `json:"lost,omitempty"`
	Since string `json:"since,omitempty"`
}

// connectionOf finds the oldest loss among the answers of a page.
func connectionOf(got []snapshot) connection {
	var since time.Time
	c := connection{}
	for _, s := range got {
		if s.lost == nil || !since.IsZero() && !s.lostSince.Before(since) {
			continue
		}
		since = s.lostSince
		first, _, _ := strings.Cut(s.lost.Error(), "\n")
		c = connection{Lost: first, Since: since.Local().Format("15:04:05")}
	}
	return c
}
