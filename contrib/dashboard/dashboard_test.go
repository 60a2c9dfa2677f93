package dashboard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/contrib/dashboard"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	_, err := dashboard.New(t.Context(), []string{"a:1"}, dashboard.WithForce())
	require.ErrorIs(t, err, redlock.ErrInvalid)
	_, err = dashboard.New(t.Context(), []string{":::"})
	require.ErrorIs(t, err, pool.ErrEndpoint)
}

func TestTheGoCodeOfThePageCompiles(t *testing.T) {
	checker, err := docs.NewChecker(".", "context", "net/http", "github.com/redquorum/redquorum/contrib/dashboard")
	require.NoError(t, err)
	checked, err := checker.CheckPage("README.md", `
		var (
			ctx       context.Context
			mux       *http.ServeMux
			endpoints []string
		)
		func userOf(*http.Request) (string, bool)`)
	require.NoError(t, err)
	require.Positive(t, checked)
}
