package appcompose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Want describes the wanted document.
type Want struct {
	Name string
	// Compose is the text before Render: it may have MarkPlace.
	Compose string
	// Envs are the names of the Revision's env; Locators are the additional names that Cadre's own
	// programs read.
	Envs, Locators []string
	Rules          Rules
}

// Answer is the platform's announcement of the content that it would measure.
type Answer struct {
	// Hash, 64 hex digits.
	Hash string
	// Text is the platform's own document; empty where it shows none.
	Text []byte
}

// Refusal says why nothing that a platform answered may be allowed.
type Refusal struct{ Reason string }

// Error implements error.
func (r *Refusal) Error() string { return r.Reason }

// Settle returns the document whose hash may be allowed: sent, which Cadre rendered, if the
// platform measures exactly those bytes; otherwise the platform's own text, if it is good too. want
// judges both texts. The platform's statement of a hash counts for nothing: the hash of the
// returned bytes may be allowed. The error is a *Refusal.
func Settle(sent []byte, answer Answer, want Want) ([]byte, error) {
	if problems := want.Judge(sent); len(problems) > 0 {
		return nil, refuse("the app-compose.json that Cadre rendered is not fit to be allowed: %s", Texts(problems))
	}
	ours, theirs := Hash(sent), strings.ToLower(answer.Hash)
	if len(answer.Text) == 0 || bytes.Equal(answer.Text, sent) {
		if ours != theirs {
			return nil, refuse("the platform would measure compose hash %.64q, but what it was sent hashes to %s, and it shows no text of its own to judge", theirs, ours)
		}
		return sent, nil
	}
	if own := Hash(answer.Text); own != theirs {
		return nil, refuse("the platform would measure compose hash %.64q, but the app-compose.json that it shows hashes to %s", theirs, own)
	}
	if problems := want.Judge(answer.Text); len(problems) > 0 {
		return nil, refuse("the platform would measure another app-compose.json than it was sent, it differs at %s, and that is refused: %s",
			Difference(sent, answer.Text), Texts(problems))
	}
	return slices.Clone(answer.Text), nil
}

// Judge judges raw by the closed list and by the wanted content.
func (w Want) Judge(raw []byte) []Problem {
	got, problems := Judge(raw, w.Rules)
	add := func(path, message string) { problems = append(problems, Problem{Path: path, Message: message}) }
	if got.Name != w.Name {
		add("name", fmt.Sprintf("is %.80q, must be %q", got.Name, w.Name))
	}
	if got.Compose != Marked(w.Compose) {
		add("docker_compose_file", "is not the compose text of the Revision")
	}
	if name := Beyond(got.Envs, w.Envs, w.Locators); name != "" {
		add("allowed_envs", beyondText(name))
	}
	return problems
}

func refuse(format string, args ...any) *Refusal {
	return &Refusal{Reason: fmt.Sprintf(format, args...)}
}

// Difference returns the first path at which two documents differ, with both values; for bytes
// only, where the documents mean the same.
func Difference(a, b []byte) string {
	x, errX := Fieldset(a)
	y, errY := Fieldset(b)
	if errX != nil || errY != nil {
		return "its form: it is not a JSON object"
	}
	if d := difference("", x, y); d != "" {
		return d
	}
	return "its form only (white space, order of keys or escapes)"
}

func difference(path string, a, b any) string {
	x, xIsMap := a.(map[string]any)
	y, yIsMap := b.(map[string]any)
	if xIsMap && yIsMap {
		for _, name := range bothKeys(x, y) {
			sub := strings.TrimPrefix(path+"."+truncated(name), ".")
			one, has := x[name]
			two, also := y[name]
			switch {
			case !also:
				return sub + ", which it left out"
			case !has:
				return fmt.Sprintf("%s, which it added as %s", sub, shown(two))
			}
			if d := difference(sub, one, two); d != "" {
				return d
			}
		}
		return ""
	}
	p, pIsList := a.([]any)
	q, qIsList := b.([]any)
	if pIsList && qIsList {
		for i := range min(len(p), len(q)) {
			if d := difference(fmt.Sprintf("%s[%d]", path, i), p[i], q[i]); d != "" {
				return d
			}
		}
		if len(p) != len(q) {
			return fmt.Sprintf("%s, which has %d entries in place of %d", path, len(q), len(p))
		}
		return ""
	}
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return fmt.Sprintf("%s, which is %s in place of %s", path, shown(b), shown(a))
}

func bothKeys(x, y map[string]any) []string {
	names := make([]string, 0, len(x)+len(y))
	for name := range x {
		names = append(names, name)
	}
	for name := range y {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func shown(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "something unreadable"
	}
	return truncated(string(text))
}
