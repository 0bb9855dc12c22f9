package reconcile

import (
	"fmt"

	"cadre.dev/store"
)

// overtaken is an error while most agents that report have seen a higher Term than
// this leader's. Either another one leads, and this Lease is over in a moment, or the
// records were put back to an older state, Term and all (CTL-06): what would be planned
// from them was decided otherwise since.
func (p *pass) overtaken() error {
	seen := p.cfg.Reports.Term()
	if seen <= p.lease.Term() {
		return nil
	}
	return fmt.Errorf("%w: most agents have seen term %d, this leader has %d: the store was restored from an older state or edited; nothing is planned until an operator, who looked at what is gone, raises the term at %s to at least %d",
		store.ErrTermRegression, seen, p.lease.Term(), store.RaisedTermKey(), seen)
}
