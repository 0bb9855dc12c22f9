package dashboard

import "net/url"

// The addresses of pages are relative to the mount, which each page names as its base.

func groupPath(name string) string { return "groups/" + url.PathEscape(name) }

func slotPath(slot string) string { return "instances/" + url.PathEscape(slot) }

// auditPath is the page of the audit chain; object selects the entries about it.
func auditPath(object string) string { return filter{Words: object}.address("audit", 1) }

// actPath is the form of an action; more are further pairs of names and values.
func actPath(verb, on string, more ...string) string {
	q := url.Values{}
	if on != "" {
		q.Set("on", on)
	}
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] != "" {
			q.Set(more[i], more[i+1])
		}
	}
	if len(q) == 0 {
		return "act/" + verb
	}
	return "act/" + verb + "?" + q.Encode()
}

// button leads to the form of an action.
type button struct {
	Text, Path string
	// Harsh actions stop something.
	Harsh bool
}
