package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// actModel is the form of an action.
type actModel struct {
	Verb, Title, Command, Effect string
	// Address of the form, with the object of the action.
	Address, Back string
	Token         string
	Preview       preview
	// Fields with the values that the operator typed.
	Fields []typedField
	// AsksTarget: the form asks which revision is meant. AsksRevision: another earlier revision can be chosen.
	AsksTarget, AsksRevision bool
	On, To                   string
	// Problem is the error of the API, or a wrong input; empty: none.
	Problem string
	// Blocked: the effect is not known, so the action cannot be made.
	Blocked bool
}

type typedField struct {
	field
	Value string
}

// acting bounds the calls of one action.
const acting = 30 * time.Second

// askAct shows the form of an action, with its effect.
func (s *Server) askAct(w http.ResponseWriter, r *http.Request) {
	a, ok := actions[r.PathValue("verb")]
	if !ok {
		s.write(w, r, http.StatusNotFound, layout{Title: "Not found"}, fragment{"error", errorModel{"not found", "no action is called " + clip(r.PathValue("verb"))}})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), acting)
	defer cancel()
	m, err := s.form(ctx, a, r.URL.Query())
	status := http.StatusOK
	if err != nil {
		status = statusOf(err)
	}
	s.write(w, r, status, layout{Title: m.Title}, fragment{"act", m})
}

// form makes the form of an action. err is why the effect could not be shown; the form has its text.
func (s *Server) form(ctx context.Context, a action, in url.Values) (actModel, error) {
	on := strings.TrimSpace(in.Get("on"))
	m := actModel{Verb: a.verb, Title: fmt.Sprintf(a.title, everything(on)), Command: strings.TrimSpace(fmt.Sprintf(a.command, on)), Effect: a.effect,
		Address: actPath(a.verb, on, "group", in.Get("group"), "to", in.Get("to")), Back: backOf(a, on), Token: s.session.form,
		On: on, To: in.Get("to"), AsksRevision: a.verb == "undo"}
	if a.on == "revision" {
		m.AsksTarget = on == ""
		m.Title = strings.ReplaceAll(m.Title, "everything", "…")
	}
	for _, f := range a.fields {
		typed := typedField{f, in.Get(f.Name)}
		typed.Choices = slices.Clone(f.Choices)
		for n := range typed.Choices {
			typed.Choices[n].Chosen = typed.Choices[n].Value == typed.Value
		}
		m.Fields = append(m.Fields, typed)
	}
	if a.on != "" && on == "" {
		m.Blocked = true
		if !m.AsksTarget {
			m.Problem = "on: is missing: the action needs a " + a.on
			return m, inputError{"on", "is missing"}
		}
		return m, nil
	}
	if a.show == nil {
		return m, nil
	}
	var err error
	if m.Preview, err = a.show(ctx, s, on, in); err != nil {
		m.Problem, m.Blocked = err.Error(), true
	}
	return m, err
}

// act makes an action, and leads back to the page of its object.
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	a, ok := actions[r.PathValue("verb")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), acting)
	defer cancel()
	in := r.Form // the guard parsed it
	m, err := s.form(ctx, a, in)
	if err == nil {
		err = refusal(a, m, in)
	}
	if err == nil {
		var said string
		if said, err = a.do(ctx, s, m.On, in); err == nil {
			s.say(said)
			http.Redirect(w, r, s.session.mount+m.Back, http.StatusSeeOther)
			return
		}
	}
	m.Problem = err.Error()
	status := statusOf(err)
	var wrong inputError
	if errors.As(err, &wrong) {
		status = http.StatusUnprocessableEntity
	}
	s.write(w, r, status, layout{Title: m.Title}, fragment{"act", m})
}

// refusal says why a form is not enough: a field is missing, the name was not typed, or the effect has changed since
// the operator saw it.
func refusal(a action, m actModel, in url.Values) error {
	if m.Blocked {
		return inputError{"on", "is missing: the action needs a " + a.on}
	}
	for _, f := range a.fields {
		value := in.Get(f.Name)
		if f.Required && strings.TrimSpace(value) == "" {
			return inputError{f.Name, "is missing: " + strings.TrimSuffix(f.Hint, ".")}
		}
		if len(f.Choices) > 0 && !slices.ContainsFunc(f.Choices, func(c choice) bool { return c.Value == value }) {
			return inputError{f.Name, fmt.Sprintf("%q is no choice", clip(value))}
		}
	}
	for name, now := range m.Preview.Shown {
		if saw := in.Get("shown_" + name); saw != now {
			return inputError{name, fmt.Sprintf("it was %q when the effect was shown, and is %q now: look at the effect again, then confirm", clip(saw), clip(now))}
		}
	}
	if want := m.Preview.Confirm; want != "" && in.Get("confirm") != want {
		return inputError{"confirm", fmt.Sprintf("type %s to say that you mean it; nothing is changed", want)}
	}
	return nil
}

// backOf is the page to return to.
func backOf(a action, on string) string {
	switch {
	case a.on == "slot":
		return slotPath(on)
	case a.on == "operation" || a.on == "request":
		return "operations"
	case a.on == "revision":
		return "admissions"
	case on == "":
		return ""
	}
	return groupPath(on)
}
