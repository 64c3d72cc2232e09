# Varnish as an edge cache: it answers any number of equal lists and long polls from one request to distributary.
#   varnishd -a 127.0.0.1:8080 -f /etc/distributary/varnish.vcl -s malloc,256m -p pipe_timeout=3600
# By default Varnish cuts off a stream after a minute without an event. The parameter is in seconds: Varnish reads `1h` as one second.
# docs/plain-prefixes.md says what makes a resource public; everything else goes through as it is.
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
  # Never serve a stale answer: a poll would get the same events again, or an empty answer at once.
  if (bereq.url ~ "[?&]wait=") {
    set beresp.grace = 0s;
    set beresp.keep = 0s;
  }
  # For one second (by default, two minutes), further requests for this do not wait for each other.
  if (beresp.http.Cache-Control ~ "(?i)no-cache|no-store|private") {
    set beresp.uncacheable = true;
    set beresp.ttl = 1s;
    return (deliver);
  }
}
