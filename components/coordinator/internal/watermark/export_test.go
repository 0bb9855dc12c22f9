package watermark

// Waiting is how many want to grow the state.
func (r *Watermark) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}
