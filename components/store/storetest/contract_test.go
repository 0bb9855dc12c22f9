package storetest_test

import (
	"testing"
	"time"

	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

func TestMemoryContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store {
		return storetest.NewMemoryWith(storetest.MemoryConfig{SessionTTL: time.Second})
	})
}

func TestConsulContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return storetest.NewConsul(t) })
}
