package reconcile

// turn is a lock that its holder keeps while it reads and writes the store. Virtual time does not go on while a goroutine
// waits for a sync.Mutex, so the answer that its holder waits for would never come in a test; it goes on while one waits
// for a channel.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// Lock waits until no other goroutine has the turn.
func (t turn) Lock() { t <- struct{}{} }

// Unlock ends the turn of the caller, which must have it.
func (t turn) Unlock() { <-t }
