package datagram

import (
	"testing"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/carrier/carriertest"
)

func TestContract(t *testing.T) {
	carriertest.Run(t, func(t *testing.T) (carrier.Session, carrier.Session) {
		d, a := pair(t, limits{})
		return d, a
	})
}
