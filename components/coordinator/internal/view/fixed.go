package view

// Fixed is a Watcher that has v and is not run: for tests of those who go by a View.
func Fixed(v *View) *Watcher { return &Watcher{latest: v, changed: make(chan struct{})} }
