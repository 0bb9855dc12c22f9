package operation

// Placing is the choice of the platform's node for the CVM that a step makes.
type Placing struct {
	// Node for the next create, recorded with its call; empty: the platform chooses.
	Node string
	// Misplaced is why the recorded node may not take the CVM any more; empty: it may.
	Misplaced string
}
