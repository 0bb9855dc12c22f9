package routes

// Changes returns the changes of one round, and whether others follow.
var (
	Wanted  = wanted
	Changes = changes
	KeepOff = keepOff
)

// Entries are config entries.
type Entries = entries

// Describe returns the kind and name of a change, and whether it removes the entry.
func (c change) Describe() (kind, name string, remove bool) { return c.kind, c.name, c.put == nil }

// Settled reports whether everything matches the latest View, and nothing was written since.
func (w *Writer) Settled() bool {
	v, _ := w.cfg.Views.Latest()
	if v == nil {
		return false
	}
	_, _, ok := w.stands(w.cfg.Now(), inputsOf(v))
	return ok
}
