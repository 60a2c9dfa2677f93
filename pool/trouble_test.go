package pool

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTroubleIsTheWordOfTheTableAndItsCure(t *testing.T) {
	for _, c := range []struct {
		err        error
		word, cure string
	}{
		{nil, "", ""},
		{errors.New("something else"), "", ""},
		{fmt.Errorf("a: %w", ErrSentinelMode), "sentinel", "give the endpoint of an independent master, not that of its monitor"},
		{ErrQuarantined, "quarantined", ""},
	} {
		word, cure := Trouble(c.err)
		assert.Equal(t, c.word, word)
		assert.Equal(t, c.cure, cure)
	}
}
