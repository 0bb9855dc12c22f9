package view

import (
	"time"

	"cadre.dev/store"
)

// CountFrom computes the ends of overrides from zero and returns v. zero is the moment, by this
// process's clock, at which the coordinators' elapsed time was 0.
func (v *View) CountFrom(zero func() time.Time) *View {
	v.zero = zero
	return v
}

// CountLike takes the zero point of other; a nil other leaves v unchanged.
func (v *View) CountLike(other *View) *View {
	if other != nil {
		v.zero = other.zero
	}
	return v
}

// CountFrom applies View.CountFrom to all Views to come. Call it before Run.
func (w *Watcher) CountFrom(zero func() time.Time) { w.zero = zero }

// End returns when an override ends automatically, by this process's clock; zero: at its deletion.
func (v *View) End(m store.Override) time.Time {
	if m.Until.IsZero() || m.EndElapsed == 0 || v.zero == nil {
		return m.Until
	}
	return v.zero().Add(time.Duration(min(m.EndElapsed, store.MaxElapsed)) * time.Millisecond).UTC()
}

// Stands reports whether an existing override has not ended yet.
func (v *View) Stands(m store.Override, now time.Time) bool {
	end := v.End(m)
	return end.IsZero() || now.Before(end)
}
