# Varnish as an edge cache: it answers any number of equal lists and long polls from one request to distributary.
#   varnishd -n distributary -a 127.0.0.1:8090 -f /etc/distributary/varnish.vcl -s malloc,256m -p pipe_timeout=3600
# By default Varnish cuts off a stream after a minute without an event. The parameter is in seconds: Varnish reads `1h` as one second.
# -n keeps it apart from the Varnish that Debian's package starts.
# docs/guide/plain-prefixes.md says what makes a resource public; everything else goes through as it is.
# Clients reach distributary under the name in their URL. Set its --allowed-hosts to that name, or it answers with 403.
vcl 4.1;

backend default {
  .host = "127.0.0.1";
  .port = "8001";
  # Longer than `wait`, which is at most 50 s.
  .first_byte_timeout = 60s;
  .between_bytes_timeout = 60s;
}

sub vcl_recv {
  # A stream has no end. An offer of h2c, as from curl and Java, does not begin one.
  if (req.http.Upgrade ~ "(?i)^(websocket|spdy/)" || (req.url ~ "[?&]watch=" && req.url !~ "[?&]wait=") || req.url ~ "^/apis?/([^/]+/)?[^/]+/watch/") {
    return (pipe);
  }
  # The answer to a client with a credential is only for that client.
  if ((req.method != "GET" && req.method != "HEAD") || req.http.Authorization || req.url ~ "[?&]ticket=") {
    return (pass);
  }
  return (hash);
}

sub vcl_pipe {
  if (req.http.Upgrade ~ "(?i)^(websocket|spdy/)") {
    set bereq.http.Upgrade = req.http.Upgrade;
    set bereq.http.Connection = req.http.Connection;
  }
}

sub vcl_backend_response {
  # By default Varnish serves an answer for ten seconds more than its header allows. A poll would get the same events again, or
  # an empty answer at once.
  if (bereq.url ~ "[?&]wait=" || beresp.http.Cache-Control !~ "stale-while-revalidate") {
    set beresp.grace = 0s;
    set beresp.keep = 0s;
  }
  # A refused poll is refused once a second, not once for each client.
  if (beresp.http.X-Accel-Expires == "1") {
    set beresp.ttl = 1s;
    return (deliver);
  }
  # For one second (by default, two minutes), further requests for this do not wait for each other.
  if (beresp.http.Cache-Control ~ "(?i)no-cache|no-store|private") {
    set beresp.uncacheable = true;
    set beresp.ttl = 1s;
    return (deliver);
  }
}
