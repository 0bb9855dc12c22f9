package attest

import (
	"errors"
	"fmt"

	"cadre.dev/attest/collateral"
)

// OpenBundle checks every signature of an offline bundle under Intel's root or one of rootsPEM
// (nil: Intel's only). simulated: the root is not Intel's. Dates are not judged; see
// [collateral.Set.Fresh].
func OpenBundle(b collateral.Bundle, rootsPEM []byte) (set *collateral.Set, simulated bool, err error) {
	r, err := loadRoots(rootsPEM)
	if err != nil {
		return nil, false, fmt.Errorf("open bundle: %w", err)
	}
	set, err = collateral.Open(b, r.intel)
	for i := 0; err != nil && i < len(r.others); i++ {
		var other error
		if set, other = collateral.Open(b, r.others[i]); other == nil {
			return set, true, nil
		}
		err = errors.Join(err, other)
	}
	return set, false, err
}
