package watermark

// Waiting returns how many growths wait.
func (r *Watermark) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}
