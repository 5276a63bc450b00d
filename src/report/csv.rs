//! `curves.csv`: every recorded curve in tidy form, one value per line.

use anyhow::Result;

use crate::report::document::Curve;

/// The curves with columns `curve,x_name,x,metric,value`.
pub fn render(curves: &[Curve]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["curve", "x_name", "x", "metric", "value"])?;
    for curve in curves {
        for (x, metric, value) in &curve.points {
            writer.write_record([&curve.name, &curve.x_name, &x.to_string(), metric, &value.to_string()])?;
        }
    }
    Ok(writer.into_inner()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_per_line() {
        let points = vec![(2.0, "kl".to_string(), 0.25), (2.0, "a,b".to_string(), -1.0)];
        let curve = Curve { name: "demo".into(), x_name: "step".into(), points };
        let text = String::from_utf8(render(&[curve]).unwrap()).unwrap();
        assert_eq!(text, "curve,x_name,x,metric,value\ndemo,step,2,kl,0.25\ndemo,step,2,\"a,b\",-1\n");
    }
}
