package routes

// Changes, as one round would make them: what each does, and whether others follow.
var (
	Wanted  = wanted
	Changes = changes
	KeepOff = keepOff
)

// Entries are config entries.
type Entries = entries

// Put is what a change writes, nil: it removes; Name is whose, and Kind.
func (c change) Told() (kind, name string, remove bool) { return c.kind, c.name, c.put == nil }

// Settled reports whether everything is as the latest View asks for, and nothing was written
// since that was found.
func (w *Writer) Settled() bool {
	v, _ := w.cfg.Views.Latest()
	if v == nil {
		return false
	}
	_, _, ok := w.stands(w.cfg.Now(), inputsOf(v))
	return ok
}
