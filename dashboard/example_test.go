package dashboard_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/redquorum/redquorum/dashboard"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func Example() {
	masters, stop := redlocktest.Masters(3)
	defer stop()

	locker, err := redlock.New(masters.Endpoints())
	if err != nil {
		panic(err)
	}
	defer locker.Close()
	lock, err := locker.Lock(context.Background(), "orders/42") // new masters vote from then on
	if err != nil {
		panic(err)
	}
	defer lock.Unlock(context.Background())

	page, err := dashboard.New(context.Background(), masters.Endpoints())
	if err != nil {
		panic(err)
	}
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", page))
	server := httptest.NewServer(mux) // on this machine; elsewhere, see WithLogin
	defer server.Close()

	response, err := http.Get(server.URL + "/locks/api/v1/list")
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	fmt.Println(response.Status, strings.Contains(string(body), `"members": 3`), err)
	// Output: 200 OK true <nil>
}
