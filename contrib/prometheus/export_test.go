package prometheus

// Held returns how many locks the histograms remember.
func Held(h *Histograms) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}
